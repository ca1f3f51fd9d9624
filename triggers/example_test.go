package triggers_test

import (
	"context"
	"fmt"

	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

type deployReport struct {
	Service string `json:"service"`
	Env     string `json:"env"`
}

// A trigger is three functions of the payload: whether the event matters, which
// conversation it belongs to, and what to say there.
func ExampleTrigger() {
	failed := triggers.Trigger{ID: "failed", Connection: "deploys", Event: "deploy.failed",
		Filter: triggers.Of(func(d deployReport) bool { return d.Env == "production" }),
		Thread: triggers.Of(func(d deployReport) provider.ThreadID { return provider.ThreadID(d.Service) }),
		Input:  triggers.Of(func(d deployReport) string { return d.Service + " failed: look into it." }),
	}
	ev := triggers.Event{ID: "ev1", Type: "deploy.failed", Payload: []byte(`{"service":"shop","env":"production"}`)}
	wanted, _ := failed.Filter(ev)
	thread, _ := failed.Thread(ev)
	text, _ := failed.Input(ev)
	fmt.Println(wanted, thread, text)
	// Output: true shop shop failed: look into it.
}

// A harness keeps the events of its triggers in an inbox. Here one is made by
// hand, with a turn that only prints.
func ExampleInbox() {
	ctx := context.Background()
	deploys := triggers.NewSource([]triggers.EventType{triggers.Declare[deployReport]("deploy.failed")}, nil)
	conns, err := deploys.Connect(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conns[0].Release(ctx)
	db, done := kv.Memory(), make(chan struct{})
	defer db.Close()
	inbox, err := triggers.OpenInbox(ctx, triggers.InboxConfig{Store: db,
		Triggers: []triggers.Trigger{{ID: "failed", Connection: "deploys", Event: "deploy.failed",
			Input: triggers.Of(func(d deployReport) string { return d.Service + " failed" })}},
		Listen: func(ctx context.Context, t *triggers.Trigger, after triggers.Cursor) (provider.Subscription, error) {
			return conns[0].(provider.Listener).Listen(ctx, &provider.ListenRequest{Event: t.Event, After: after})
		},
		Deliver: func(ctx context.Context, d *triggers.Delivery) error {
			if err := db.Update(ctx, d.Begin); err != nil {
				return err
			}
			fmt.Println(d.Message, "on", d.Thread, "says", d.Text)
			defer close(done)
			return db.Update(ctx, func(tx kv.Tx) error { return d.End(tx, nil) })
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := inbox.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	if err := inbox.Tried(ctx); err != nil {
		fmt.Println(err)
	}
	for range 2 { // it is sent twice, and dealt with once
		err := deploys.Emit(ctx, triggers.Emission{Type: "deploy.failed", ID: "ev1", Payload: deployReport{Service: "shop"}})
		if err != nil {
			fmt.Println(err)
		}
	}
	<-done
	if err := inbox.Stop(ctx); err != nil {
		fmt.Println(err)
	}
	if err := inbox.Wait(ctx); err != nil {
		fmt.Println(err)
	}
	s := inbox.Status()[0]
	fmt.Println(s.Done, "done,", s.Duplicates, "known already")
	// Output:
	// deploys:failed:ev1 on failed says shop failed
	// 1 done, 1 known already
}
