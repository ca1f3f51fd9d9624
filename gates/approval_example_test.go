package gates_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/store"
)

// An approver is asked when a policy or a guard wants consent. This one lets
// small refunds through and leaves the others to people, who have as long as the
// request lives.
func ExampleApproverFunc() {
	approver := gates.ApproverFunc(func(_ context.Context, a *gates.Approval) (gates.Decision, error) {
		var args struct{ Amount int }
		if err := json.Unmarshal(a.Call.Args, &args); err != nil {
			return gates.Decision{}, err
		}
		if args.Amount <= 50 {
			return gates.Decision{Verdict: gates.Allow, By: "petty cash"}, nil
		}
		return gates.Decision{}, nil
	})
	s := store.Memory()
	defer s.Close()
	book := gates.OpenApprovals(s)
	for _, args := range []string{`{"amount":20}`, `{"amount":2000}`} {
		call := gates.Call{Connection: "shop", Op: "refund", Args: json.RawMessage(args), Execution: "exe-1"}
		a, err := gates.Ask(context.Background(), book, approver, gates.Approval{Call: call}, 500*time.Millisecond)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %s by %s\n", a.Call.Args, a.Decision.Verdict, a.Decision.By)
	}
	// Output:
	// {"amount":20}: allow by petty cash
	// {"amount":2000}: deny by timeout
}

// An operator lists what waits and decides about it with any HTTP client.
func ExampleNewHandler() {
	s := store.Memory()
	defer s.Close()
	book := gates.OpenApprovals(s)
	mux := http.NewServeMux()
	mux.Handle("/approvals/", gates.NewHandler(book, "s3cret-token", nil))
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx := context.Background()
	asked, err := book.Request(ctx, gates.Approval{
		Call:   gates.Call{Connection: "shop", Op: "refund", Args: json.RawMessage(`{"order": "A-1"}`), Execution: "exe-1"},
		Reason: "its profile guards it",
	})
	if err != nil {
		panic(err)
	}
	send := func(method, path, body string) {
		req, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Authorization", "Bearer s3cret-token")
		res, err := server.Client().Do(req)
		if err != nil {
			panic(err)
		}
		defer res.Body.Close()
		var a struct{ State, Op, Reason string }
		if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
			panic(err)
		}
		fmt.Println(strings.TrimSpace(fmt.Sprintln(res.StatusCode, a.State, a.Op, a.Reason)))
	}
	path := "/approvals/" + string(asked.ID)
	send("GET", path, "")
	send("POST", path, `{"verdict": "allow", "by": "dora"}`)
	send("POST", path, `{"verdict": "deny"}`)
	d, err := book.Wait(ctx, asked.ID)
	fmt.Println(d.Verdict, d.By, err)
	// Output:
	// 200 pending refund its profile guards it
	// 200 decided refund its profile guards it
	// 409
	// allow dora <nil>
}
