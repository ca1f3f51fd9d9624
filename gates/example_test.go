package gates_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
)

// A hook sees every call before it is sent. This one tells a model how to do
// better, and refuses what it must not do.
func ExampleHook() {
	limits := gates.Hook{
		Name: "limits",
		BeforeToolCall: func(_ context.Context, c *gates.Call) (gates.Decision, error) {
			var args struct{ Amount int }
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return gates.Decision{}, err
			}
			switch {
			case args.Amount > 1000:
				return gates.Decision{Verdict: gates.Deny, Reason: "more than 1000 at once"}, nil
			case args.Amount > 100 && c.Source == gates.SourceModel:
				return gates.Decision{Verdict: gates.Guide, Reason: "Ask the user first, then pay in parts of 100."}, nil
			}
			return gates.Decision{}, nil
		},
	}
	chain := gates.New(&gates.Options{Hooks: []gates.Hook{limits}})
	catalog := gates.NewCatalog("bank", &provider.Manifest{Operations: []provider.Operation{
		{Name: "pay", Args: json.RawMessage(`{"properties":{"amount":{"type":"integer"}},"required":["amount"]}`)},
		{Name: "close_account"},
	}})
	pay := func(op, args string) {
		out := chain.Call(context.Background(), &gates.Request{
			Call: gates.Call{Connection: "bank", Op: op, Args: json.RawMessage(args), Source: gates.SourceModel},
			Target: gates.Target{
				Catalog: catalog,
				Policy:  connection.Policy{Deny: []string{"close_*"}},
				Send: func(_ context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
					return &provider.CallResult{Value: json.RawMessage(`"paid"`)}, nil
				},
			},
		})
		fe, _ := errors.AsType[*fault.Error](out.Err)
		switch {
		case fe == nil:
			fmt.Println("sent:", string(out.Value))
		case fe.Hint != "":
			fmt.Printf("%s: %s\n", out.Gate, fe.Hint)
		default:
			fmt.Printf("%s: %v\n", out.Gate, fe)
		}
	}
	pay("pay", `{"amount": 50}`)
	pay("pay", `{"amount": 500}`)
	pay("pay", `{"amount": 5000}`)
	pay("pay", `{"amount": "50"}`)
	pay("close_account", `{}`)
	pay("payy", `{}`)
	// Output:
	// sent: "paid"
	// hooks: Ask the user first, then pay in parts of 100.
	// hooks: pay on bank: denied by hook "limits": more than 1000 at once [steering_denied]
	// schema: pay on bank: arguments do not fit: /amount is a string, want integer [args_invalid]
	// policy: close_account on bank: denied by the policy: the Deny pattern "close_*" matches [steering_denied]
	// exists: Did you mean "pay"?
}
