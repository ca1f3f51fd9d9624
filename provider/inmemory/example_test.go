package inmemory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

// A shop with one operation, which a test calls and then asks what happened.
func Example() {
	type payArgs struct {
		Order  string `json:"order"`
		Amount int    `json:"amount"`
	}
	type paid struct {
		OK bool `json:"ok"`
	}
	shop := inmemory.New(inmemory.Options{
		Surface: "shop",
		Operations: map[string]inmemory.Operation{
			"pay": inmemory.Func(func(_ context.Context, c *inmemory.Call, a payArgs) (paid, error) {
				if a.Amount > 100 {
					return paid{}, provider.Refused("limit", "too much at once")
				}
				c.Emit("order.paid", a.Order)
				return paid{OK: true}, nil
			}).With(provider.Facts{Effects: true, Once: true}),
		},
		Events: map[string]provider.EventType{"order.paid": {Replay: provider.ReplayCursor}},
	})

	ctx := context.Background()
	conns, err := shop.Connect(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conns[0].Release(ctx)
	for _, args := range []string{`{"order":"o-1","amount":20}`, `{"order":"o-2","amount":500}`} {
		res, err := conns[0].Call(ctx, &provider.CallRequest{Op: "pay", Args: json.RawMessage(args)})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(string(res.Value))
	}
	for _, call := range shop.Calls() {
		fmt.Println(call.Op, string(call.Args), call.Err == nil)
	}
	// Output:
	// {"ok":true}
	// too much at once [op_failed limit]
	// pay {"order":"o-1","amount":20} true
	// pay {"order":"o-2","amount":500} false
}

// A reply that got lost: the thing acted, but the caller cannot know.
func ExampleProvider_Fail() {
	shop := inmemory.New(inmemory.Options{
		Operations: map[string]inmemory.Operation{"pay": inmemory.Reply(map[string]bool{"ok": true})},
	})
	shop.Fail("pay", inmemory.Fault{Lost: true})

	ctx := context.Background()
	conns, err := shop.Connect(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conns[0].Release(ctx)
	_, err = conns[0].Call(ctx, &provider.CallRequest{Op: "pay"})
	fmt.Println(errors.Is(err, fault.OutcomeUnknown), len(shop.Calls()))
	// Output: true 1
}

// Events belong to the thing: a cursor is good on a later connection.
func ExampleProvider_Emit() {
	shop := inmemory.New(inmemory.Options{
		Events: map[string]provider.EventType{"order.paid": {Replay: provider.ReplayCursor}},
	})
	shop.Emit("order.paid", "o-1")
	shop.Emit("order.paid", "o-2")

	ctx := context.Background()
	conns, err := shop.Connect(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conns[0].Release(ctx)
	listener, _ := provider.Ability[provider.Listener](conns[0])
	sub, err := listener.Listen(ctx, &provider.ListenRequest{Event: "order.paid", After: "1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range sub.Events() {
		order, _ := provider.Decode[string](e)
		fmt.Println(e.ID, order, err)
		break
	}
	// Output: event-2 o-2 <nil>
}
