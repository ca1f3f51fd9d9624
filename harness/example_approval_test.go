package harness_test

import (
	"context"
	"fmt"
	"log"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
)

type transfer struct {
	Amount int    `json:"amount"`
	PIN    string `json:"pin"`
}

func bank() *inmemory.Provider {
	return inmemory.New(inmemory.Options{Surface: "bank", Operations: map[string]inmemory.Operation{
		"pay": inmemory.Func(func(_ context.Context, _ *inmemory.Call, t transfer) (string, error) {
			return fmt.Sprintf("paid %d with %s", t.Amount, t.PIN), nil
		}),
	}})
}

// Somebody agrees to the call before it is sent. Nobody but the bank sees the
// PIN: not who approves, and not who gets the answer.
func ExampleRun_approval() {
	ctx := context.Background()
	h, err := harness.New(harness.Config{
		Name:        "clerk",
		Connections: connection.Set{"bank": {Provider: bank(), Policy: connection.Policy{Approve: []string{"pay"}}}},
		Secrets:     secrets.Map{"bank.pin": secrets.NewValue("4711-0815")},
		Approver: gates.ApproverFunc(func(_ context.Context, a *gates.Approval) (gates.Decision, error) {
			fmt.Println("may I", a.Call.Op, string(a.Call.Args))
			return gates.Decision{Verdict: gates.Allow, By: "dora"}, nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)

	pay := steps.Call{ID: "pay", Connection: "bank", Op: "pay",
		Args: map[string]any{"amount": 20, "pin": secrets.Ref("bank.pin")}}
	said, err := harness.Run(ctx, h, steps.As[string](pay), nil, nil)
	fmt.Println(said, err)
	// Output:
	// may I pay {"amount":20,"pin":{"$secret":"bank.pin"}}
	// paid 20 with <redacted> <nil>
}
