package harness_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

type payArgs struct {
	Amount int `json:"amount"`
}

type receipt struct {
	Number int `json:"number"`
}

// shop stands in for a server: any provider will do.
func shop() *inmemory.Provider {
	return inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
		"pay": inmemory.Func(func(_ context.Context, _ *inmemory.Call, a payArgs) (receipt, error) {
			return receipt{Number: 100 + a.Amount}, nil
		}),
		"refund": inmemory.Reply("refunded"),
	}})
}

// A model uses the tools of a connection to answer a message.
func ExampleAgentHarness_Execute() {
	ctx := context.Background() // the program's own
	h, err := harness.New(harness.Config{
		Name:        "clerk",
		Model:       scripted.New(scripted.CallTool("shop_pay", payArgs{Amount: 7}), scripted.Say("Paid.")),
		Connections: connection.Set{"shop": {Provider: shop()}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)

	turn, err := h.Execute(ctx, "Pay 7 for the coffee", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range turn.Events(ctx) {
		if err == nil && ev.Type == event.CallCompleted {
			fmt.Println(ev.Connection, ev.Op)
		}
	}
	answer, err := turn.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Text)
	// Output:
	// shop pay
	// Paid.
}

// A program runs steps itself and gets their output with its type.
func ExampleRun() {
	ctx := context.Background() // the program's own
	h, err := harness.New(harness.Config{Name: "clerk", Connections: connection.Set{"shop": {Provider: shop()}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)

	pay := steps.Func("pay", func(c steps.Context, amounts []int) (last receipt, err error) {
		for _, amount := range amounts {
			call := steps.Call{ID: "one", Connection: "shop", Op: "pay", Args: payArgs{Amount: amount}}
			if last, err = steps.Do(c, steps.As[receipt](call)); err != nil {
				return receipt{}, err
			}
		}
		return last, nil
	})
	last, err := harness.Run(ctx, h, pay, []int{1, 2, 3}, nil)
	fmt.Println(last.Number, err)
	// Output: 103 <nil>
}

// A hook judges every call of models and steps before it is sent.
func ExampleAgentHarness_hook() {
	ctx := context.Background() // the program's own
	server := shop()
	h, err := harness.New(harness.Config{
		Name:        "clerk",
		Connections: connection.Set{"shop": {Provider: server}},
		Hooks: []gates.Hook{{Name: "limit", BeforeToolCall: func(_ context.Context, c *gates.Call) (gates.Decision, error) {
			if c.Op == "pay" && len(c.Args) > len(`{"amount":99}`) {
				return gates.Decision{Verdict: gates.Deny, Reason: "more than 99"}, nil
			}
			return gates.Decision{}, nil
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)

	for _, amount := range []int{99, 100} {
		_, err := h.Run(ctx, steps.Call{ID: "pay", Connection: "shop", Op: "pay", Args: payArgs{Amount: amount}}, nil, nil)
		fmt.Println(amount, errors.Is(err, fault.SteeringDenied))
	}
	fmt.Println("calls that reached the shop:", len(server.Calls()))
	// Output:
	// 99 false
	// 100 true
	// calls that reached the shop: 1
}

// A policy refuses operations of a connection, whoever asks. A model is told
// so and can go on.
func ExampleAgentHarness_policy() {
	ctx := context.Background() // the program's own
	h, err := harness.New(harness.Config{
		Name:  "clerk",
		Model: scripted.New(scripted.CallTool("shop_refund", nil), scripted.Say("I may not do that.")),
		Connections: connection.Set{"shop": {
			Provider: shop(),
			Policy:   connection.Policy{Deny: []string{"refund*"}},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close(ctx)

	turn, err := h.Execute(ctx, "Give me my money back", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range turn.Events(ctx) {
		if err == nil && ev.Type == event.CallCompleted {
			fmt.Println("refused by gate", ev.Gate)
		}
	}
	answer, err := turn.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Text)
	// Output:
	// refused by gate policy
	// I may not do that.
}
