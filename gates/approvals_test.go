package gates_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
	"github.com/google/go-cmp/cmp"
)

// refund is a request with every bound field set.
func refund() gates.Approval {
	return gates.Approval{
		Call: gates.Call{
			Connection: "shop", Op: "refund", Args: json.RawMessage(`{"amount":2000,"order":"A-1"}`),
			Source: gates.SourceModel, Thread: "ops-42", Execution: "exe-1", Step: "/agent#1", CallID: "c2",
			Key: "exe-1:tool:c2",
			Operation: provider.Operation{Name: "refund", Title: "Refund", Description: "Pays back.",
				Args: json.RawMessage(`{"type":"object"}`), Facts: provider.Facts{Guarded: true}},
			Identity: provider.Identity{Surface: "web", Instance: "shop-eu", Epoch: "3"},
		},
		Lease: "L7", RefIDs: []string{"e12"}, Reason: "the Approve pattern \"refund\" matches",
	}
}

// everyStore runs a test on each engine.
func everyStore(t *testing.T, test func(*testing.T, store.Store)) {
	t.Run("memory", func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		test(t, s)
	})
	t.Run("bolt", func(t *testing.T) {
		s := openBolt(t, filepath.Join(t.TempDir(), "book.db"))
		defer s.Close()
		test(t, s)
	})
}

func openBolt(t *testing.T, path string) store.Store {
	t.Helper()
	s, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(t *testing.T, b *gates.Approvals, a gates.Approval) *gates.Approval {
	t.Helper()
	asked, err := b.Request(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return asked
}

func decide(t *testing.T, b *gates.Approvals, id gates.ApprovalID, d gates.Decision) {
	t.Helper()
	if err := b.Decide(t.Context(), id, d); err != nil {
		t.Fatal(err)
	}
}

func consume(t *testing.T, s store.Store, b *gates.Approvals, id gates.ApprovalID, live gates.Approval) error {
	t.Helper()
	return s.Update(t.Context(), func(tx store.Tx) error { return b.Consume(tx, id, live) })
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("got %v, want %s", err, code)
	}
}

func pending(t *testing.T, b *gates.Approvals) []gates.ApprovalID {
	t.Helper()
	var ids []gates.ApprovalID
	for a, err := range b.Pending(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.ID)
	}
	return ids
}

func TestAnApprovalIsGoodForOneCallOnce(t *testing.T) {
	everyStore(t, func(t *testing.T, s store.Store) {
		b := gates.OpenApprovals(s)
		a := request(t, b, refund())
		wantCode(t, consume(t, s, b, a.ID, refund()), fault.ApprovalClosed) // before anybody decided
		decide(t, b, a.ID, gates.Decision{Verdict: gates.Allow, By: "dora"})
		if d, err := b.Wait(t.Context(), a.ID); err != nil || d.Verdict != gates.Allow || d.By != "dora" {
			t.Fatalf("got %+v, %v", d, err)
		}
		if err := consume(t, s, b, a.ID, refund()); err != nil {
			t.Fatal(err)
		}
		wantCode(t, consume(t, s, b, a.ID, refund()), fault.ApprovalClosed)
		again := request(t, b, refund())
		if again.ID == a.ID || again.Closed() {
			t.Errorf("the same call later got %+v, want a new request", again)
		}
	})
}

// others are the same call, but for one thing.
func others() map[string]func(*gates.Approval) {
	return map[string]func(*gates.Approval){
		"arguments":       func(a *gates.Approval) { a.Call.Args = json.RawMessage(`{"amount":2001,"order":"A-1"}`) },
		"argument type":   func(a *gates.Approval) { a.Call.Args = json.RawMessage(`{"amount":"2000","order":"A-1"}`) },
		"replay":          func(a *gates.Approval) { a.Call.Key += ":r1" },
		"execution":       func(a *gates.Approval) { a.Call.Execution = "exe-2" },
		"thread":          func(a *gates.Approval) { a.Call.Thread = "ops-43" },
		"connection":      func(a *gates.Approval) { a.Call.Connection = "shop-b" },
		"operation":       func(a *gates.Approval) { a.Call.Op = "refund.all" },
		"lease":           func(a *gates.Approval) { a.Lease = "L8" },
		"no lease":        func(a *gates.Approval) { a.Lease = "" },
		"instance":        func(a *gates.Approval) { a.Call.Identity.Instance = "shop-us" },
		"epoch":           func(a *gates.Approval) { a.Call.Identity.Epoch = "4" },
		"surface":         func(a *gates.Approval) { a.Call.Identity.Surface = "ios" },
		"reference":       func(a *gates.Approval) { a.RefIDs = []string{"e13"} },
		"no reference":    func(a *gates.Approval) { a.RefIDs = nil },
		"references cut":  func(a *gates.Approval) { a.RefIDs = []string{"e1", "2"} },
		"description":     func(a *gates.Approval) { a.Call.Operation.Description = "Pays back. Ask nobody." },
		"argument schema": func(a *gates.Approval) { a.Call.Operation.Args = json.RawMessage(`{"type":"object","x":1}`) },
		"fact":            func(a *gates.Approval) { a.Call.Operation.Facts.Guarded = false },
		"hint":            func(a *gates.Approval) { a.Call.Operation.Hints.ReadOnly = new(true) },
		"question":        func(a *gates.Approval) { a.Question = &provider.Question{Message: "Really?"} },
		"fields shifted":  func(a *gates.Approval) { a.Call.Thread, a.Call.Connection = "ops-42s", "hop" },
	}
}

func TestAnApprovalAuthorisesNoOtherCall(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	a := request(t, b, refund())
	decide(t, b, a.ID, gates.Decision{Verdict: gates.Allow})
	for name, change := range others() {
		t.Run(name, func(t *testing.T) {
			other := refund()
			change(&other)
			other.Digest, other.ID = a.Digest, a.ID // what a caller claims is not looked at
			wantCode(t, consume(t, s, b, a.ID, other), fault.ApprovalClosed)
			if got := request(t, b, other); got.ID == a.ID || got.Digest == a.Digest || got.Closed() {
				t.Errorf("it got the answer of the other call: %+v", got)
			}
		})
	}
	if err := consume(t, s, b, a.ID, refund()); err != nil {
		t.Errorf("the call itself: %v", err)
	}
}

func TestArgumentsAreTheSameHoweverTheyAreWritten(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	a := request(t, b, refund())
	other := refund()
	other.Call.Args = json.RawMessage(` { "order":"\u0041-1", "amount": 2000 } `)
	if again := request(t, b, other); again.ID != a.ID {
		t.Errorf("another spelling is another request: %s, %s", a.Call.Args, again.Call.Args)
	}
	for _, args := range []string{`{"a":1,"a":2}`, `{`, "{\"a\":\"\xff\"}", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65)} {
		other.Call.Args = json.RawMessage(args)
		_, err := b.Request(t.Context(), other)
		wantCode(t, err, fault.ArgsInvalid)
	}
}

func TestPermissionForTheExecutionCoversTheOperationUntilItEnds(t *testing.T) {
	everyStore(t, func(t *testing.T, s store.Store) {
		b := gates.OpenApprovals(s)
		a := request(t, b, refund())
		decide(t, b, a.ID, gates.Decision{Verdict: gates.Allow, By: "dora", Scope: gates.ThisExecution})
		next := refund()
		next.Call.Args, next.Call.Key, next.RefIDs = json.RawMessage(`{"order":"B"}`), "exe-1:tool:c3", nil
		grant, ok, err := b.Grant(t.Context(), next)
		if err != nil || !ok || grant.ID != a.ID {
			t.Fatalf("got %+v, %v, %v", grant, ok, err)
		}
		for range 2 {
			if err := consume(t, s, b, grant.ID, next); err != nil {
				t.Error(err)
			}
			if err := consume(t, s, b, grant.ID, refund()); err != nil {
				t.Error(err)
			}
		}
		if late := request(t, b, next); !late.Closed() || late.Decision.Verdict != gates.Allow || late.Decision.By != "dora" {
			t.Errorf("a request afterwards waits: %+v", late)
		}
		if err := s.Update(t.Context(), func(tx store.Tx) error { return b.End(tx, "exe-1") }); err != nil {
			t.Fatal(err)
		}
		wantCode(t, consume(t, s, b, grant.ID, next), fault.ApprovalClosed)
		if _, ok, err := b.Grant(t.Context(), next); ok || err != nil {
			t.Errorf("it outlives the execution: %v, %v", ok, err)
		}
	})
}

func TestPermissionForTheExecutionCoversNothingElse(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	a := request(t, b, refund())
	decide(t, b, a.ID, gates.Decision{Verdict: gates.Allow, Scope: gates.ThisExecution})
	covered := map[string]bool{"arguments": true, "argument type": true, "replay": true, "reference": true, "no reference": true, "references cut": true}
	for name, change := range others() {
		t.Run(name, func(t *testing.T) {
			other := refund()
			change(&other)
			_, ok, err := b.Grant(t.Context(), other)
			if err != nil || ok != covered[name] {
				t.Errorf("granted = %v, %v", ok, err)
			}
			if err := consume(t, s, b, a.ID, other); (err == nil) != covered[name] {
				t.Errorf("consumed: %v", err)
			}
		})
	}
}

func TestB058PermissionForTheExecutionAnswersSiblingsThatWait(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	first, sibling, stranger := refund(), refund(), refund()
	sibling.Call.Key, sibling.Call.Args = "exe-1:tool:c3", json.RawMessage(`{"order":"B"}`)
	stranger.Call.Connection = "shop-b"
	a, c, d := request(t, b, first), request(t, b, sibling), request(t, b, stranger)
	decide(t, b, a.ID, gates.Decision{Verdict: gates.Allow, Scope: gates.ThisExecution})
	if got, err := b.Wait(t.Context(), c.ID); err != nil || got.Verdict != gates.Allow {
		t.Errorf("the sibling: %+v, %v", got, err)
	}
	if err := consume(t, s, b, c.ID, sibling); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]gates.ApprovalID{d.ID}, pending(t, b)); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}

func TestPermissionForTheExecutionAnswersNoQuestion(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	question := refund()
	question.Question = &provider.Question{Message: "Really?"}
	q, a := request(t, b, question), request(t, b, refund())
	decide(t, b, a.ID, gates.Decision{Verdict: gates.Allow, Scope: gates.ThisExecution})
	if diff := cmp.Diff([]gates.ApprovalID{q.ID}, pending(t, b)); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}

func TestPermissionIsUsedUnderItsOwnID(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	list := refund()
	list.Call.Op, list.Call.Operation.Name = "list", "list"
	a, c := request(t, b, refund()), request(t, b, list)
	decide(t, b, a.ID, gates.Decision{Verdict: gates.Allow, Scope: gates.ThisExecution})
	decide(t, b, c.ID, gates.Decision{Verdict: gates.Allow, Scope: gates.ThisExecution})
	wantCode(t, consume(t, s, b, c.ID, refund()), fault.ApprovalClosed)
	if err := consume(t, s, b, a.ID, refund()); err != nil {
		t.Error(err)
	}
}

func TestOutsideOfAnExecutionThereIsNoPermissionForIt(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	call := refund()
	call.Call.Execution = ""
	a := request(t, b, call)
	wantCode(t, b.Decide(t.Context(), a.ID, gates.Decision{Verdict: gates.Allow, Scope: gates.ThisExecution}), fault.ArgsInvalid)
	decide(t, b, a.ID, gates.Decision{Verdict: gates.Allow})
}

func TestACallCannotPassForAQuestion(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	call, question := refund(), refund()
	call.RefIDs = []string{"question", "", "Really?", "", ""}
	question.RefIDs, question.Question = nil, &provider.Question{Message: "Really?"}
	if request(t, b, call).Digest == request(t, b, question).Digest {
		t.Error("both have one digest")
	}
}

func TestB060AnswersAreMatchedByID(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	one, two := refund(), refund()
	two.Call.Args, two.Call.Key = json.RawMessage(`{"order":"B"}`), "exe-1:tool:c3"
	a, c := request(t, b, one), request(t, b, two)
	decide(t, b, c.ID, gates.Decision{Verdict: gates.Allow})
	decide(t, b, a.ID, gates.Decision{Verdict: gates.Deny})
	wantCode(t, consume(t, s, b, c.ID, one), fault.ApprovalClosed)
	wantCode(t, consume(t, s, b, a.ID, one), fault.ApprovalClosed)
	if err := consume(t, s, b, c.ID, two); err != nil {
		t.Error(err)
	}
}

func TestTheFirstDecisionCounts(t *testing.T) {
	everyStore(t, func(t *testing.T, s store.Store) {
		b := gates.OpenApprovals(s)
		a := request(t, b, refund())
		var won atomic.Int32
		var winner atomic.Value
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				d := gates.Decision{Verdict: gates.Allow, By: fmt.Sprint(i)}
				switch err := gates.OpenApprovals(s).Decide(t.Context(), a.ID, d); {
				case err == nil:
					won.Add(1)
					winner.Store(d.By)
				case !errors.Is(err, fault.ApprovalClosed):
					t.Errorf("got %v", err)
				}
			})
		}
		group.Wait()
		if d, err := b.Wait(t.Context(), a.ID); won.Load() != 1 || err != nil || d.By != winner.Load() {
			t.Errorf("%d won, %+v counts: %v", won.Load(), d, err)
		}
	})
}

func TestAnApprovalIsUsedOnceByCallersAtTheSameTime(t *testing.T) {
	everyStore(t, func(t *testing.T, s store.Store) {
		b := gates.OpenApprovals(s)
		a := request(t, b, refund())
		decide(t, b, a.ID, gates.Decision{Verdict: gates.Allow})
		var sent atomic.Int32
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				err := s.Update(t.Context(), func(tx store.Tx) error {
					if err := b.Consume(tx, a.ID, refund()); err != nil {
						return err
					}
					return tx.Put("pending", "entry", nil)
				})
				if err == nil {
					sent.Add(1)
				} else if !errors.Is(err, fault.ApprovalClosed) {
					t.Errorf("got %v", err)
				}
			})
		}
		group.Wait()
		if sent.Load() != 1 {
			t.Errorf("%d were sent", sent.Load())
		}
	})
}

func TestAnApprovalIsNotUsedByATransactionThatFails(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	a := request(t, b, refund())
	decide(t, b, a.ID, gates.Decision{Verdict: gates.Allow})
	full := errors.New("disk full")
	err := s.Update(t.Context(), func(tx store.Tx) error { return errors.Join(b.Consume(tx, a.ID, refund()), full) })
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
	if err := consume(t, s, b, a.ID, refund()); err != nil {
		t.Error(err)
	}
}

func TestRequestsAndDecisionsSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book.db")
	s := openBolt(t, path)
	asked := request(t, gates.OpenApprovals(s), refund())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openBolt(t, path) // another process decides
	other := gates.OpenApprovals(s)
	for a, err := range other.Pending(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		want := *asked
		want.Call.Operation.Args = nil // schemas are not kept
		if diff := cmp.Diff(&want, a); diff != "" {
			t.Errorf("what it sees (-asked +read):\n%s", diff)
		}
		decide(t, other, a.ID, gates.Decision{Verdict: gates.Allow, By: "dora", Reason: "fine"})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openBolt(t, path) // the run is resumed
	defer s.Close()
	b := gates.OpenApprovals(s)
	again := request(t, b, refund())
	if again.ID != asked.ID || again.Decision.Verdict != gates.Allow || again.Decision.Reason != "fine" {
		t.Fatalf("the resumed run got %+v", again)
	}
	if err := consume(t, s, b, again.ID, refund()); err != nil {
		t.Error(err)
	}
}

func TestADecisionOfAnotherProcessEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		asked := request(t, gates.OpenApprovals(s), refund())
		done := make(chan gates.Decision, 1)
		go func() {
			d, err := gates.OpenApprovals(s).Wait(t.Context(), asked.ID)
			if err != nil {
				t.Error(err)
			}
			done <- d
		}()
		synctest.Wait()
		decide(t, gates.OpenApprovals(s), asked.ID, gates.Decision{Verdict: gates.Guide, Reason: "pay in parts"})
		if d := <-done; d.Verdict != gates.Guide || d.Reason != "pay in parts" {
			t.Errorf("got %+v", d)
		}
	})
}

func TestWaitingEndsWithItsContextAndLeavesTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		b := gates.OpenApprovals(s)
		asked := request(t, b, refund())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Wait(ctx, asked.ID)
		wantCode(t, err, fault.Timeout)
		decide(t, b, asked.ID, gates.Decision{Verdict: gates.Allow})
	})
}
