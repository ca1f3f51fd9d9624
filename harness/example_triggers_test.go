package harness_test

import (
	"context"
	"fmt"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/triggers"
)

// An agent that starts by itself when something happens.
func ExampleAgentHarness_Inbox() {
	type order struct {
		Item string `json:"item"`
	}
	orders := triggers.NewSource([]triggers.EventType{triggers.Declare[order]("placed")}, nil)
	h, err := harness.New(harness.Config{
		Name: "shop", Model: scripted.New(scripted.Say("I will pack it.")),
		Connections: connection.Set{"orders": {Provider: orders}},
		Triggers: []triggers.Trigger{{ID: "pack", Connection: "orders", Event: "placed",
			Input: triggers.Of(func(o order) string { return "Pack " + o.Item })}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer h.Close(ctx)
	if err := h.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	// Once Emit returns, the event is accepted.
	if err := orders.Emit(ctx, triggers.Emission{Type: "placed", ID: "o-7", Payload: order{"a kettle"}}); err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range h.Events(ctx, "") {
		if err != nil || ev.Type == event.InboxDone {
			break
		}
	}
	for m, err := range h.Inbox().List(ctx, triggers.InboxFilter{}) {
		fmt.Println(m.ID, m.State, err)
	}
	// Output: orders:pack:o-7 done <nil>
}
