package gates_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/store"
)

// TestABookKeepsNoCredential asks for calls with a credential written plainly,
// which are bound as they are and shown without it.
func TestABookKeepsNoCredential(t *testing.T) {
	ctx := t.Context()
	s := store.Memory()
	defer s.Close()
	scrub := secrets.NewScrubber()
	scrub.Add(planted)
	book := gates.NewApprovals(s, &gates.ApprovalsOptions{Scrubber: scrub})
	clean := func(where string, value any) {
		t.Helper()
		raw, err := json.Marshal(value)
		if text := fmt.Sprintf("%+v %s", value, raw); err != nil || strings.Contains(text, planted) {
			t.Errorf("%s: %s, %v", where, text, err)
		}
	}
	for name, args := range map[string]string{
		"short": `{"card":"` + planted + `"}`,
		"long":  `{"a":"` + strings.Repeat("x", 16<<10-20) + planted + strings.Repeat("y", 256<<10) + `"}`,
	} {
		asked := gates.Approval{Reason: "because of " + planted, Call: gates.Call{Connection: "a", Op: "pay", Args: json.RawMessage(args),
			Operation: provider.Operation{Name: "pay", Title: planted, Description: planted}}}
		approver := gates.ApproverFunc(func(_ context.Context, a *gates.Approval) (gates.Decision, error) {
			clean("shown to the approver", *a)
			return gates.Decision{Verdict: gates.Allow, Reason: planted, By: planted, Args: a.Call.Args}, nil
		})
		got, err := gates.Ask(ctx, book, approver, asked, 0)
		if err != nil || got.Decision.Verdict != gates.Allow {
			t.Fatalf("%s: %+v, %v", name, got.Decision, err)
		}
		clean("decision", got.Decision)
		stored, err := book.Find(ctx, got.ID)
		if err != nil {
			t.Fatal(err)
		}
		clean("stored", *stored)
		other := asked
		other.Call.Args = stored.Call.Args
		if err := s.Update(ctx, func(tx store.Tx) error { return book.Consume(tx, got.ID, other) }); err == nil {
			t.Errorf("%s: the approval is good for what it shows", name)
		}
		if err := s.Update(ctx, func(tx store.Tx) error { return book.Consume(tx, got.ID, asked) }); err != nil {
			t.Errorf("%s: the approval is not good for what was asked: %v", name, err)
		}
	}
}
