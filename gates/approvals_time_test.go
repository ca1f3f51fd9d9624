package gates_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/google/go-cmp/cmp"
)

// clock is a clock that can be set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestARequestRunsOutForEverybodyWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		asked := request(t, gates.OpenApprovals(s), refund())
		start := time.Now()
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				d, err := gates.OpenApprovals(s).Wait(t.Context(), asked.ID)
				if err != nil || d.Verdict != gates.Deny || d.By != "timeout" || time.Since(start) != gates.DefaultApprovalTimeout {
					t.Errorf("got %+v, %v after %v", d, err, time.Since(start))
				}
			})
		}
		group.Wait()
	})
}

func TestWhatRanOutCannotBeDecidedOrUsed(t *testing.T) {
	everyStore(t, func(t *testing.T, s store.Store) {
		c := newClock()
		b := gates.NewApprovals(s, &gates.ApprovalsOptions{Now: c.Now})
		waits, allowed := refund(), refund()
		allowed.Call.Key = "exe-1:tool:c3"
		a, d := request(t, b, waits), request(t, b, allowed)
		decide(t, b, d.ID, gates.Decision{Verdict: gates.Allow})
		c.jump(5 * time.Minute)
		wantCode(t, b.Decide(t.Context(), a.ID, gates.Decision{Verdict: gates.Allow}), fault.ApprovalClosed)
		wantCode(t, consume(t, s, b, d.ID, allowed), fault.ApprovalClosed)
		if got := request(t, b, allowed); got.ID == d.ID || got.Closed() {
			t.Errorf("asked again, it got %+v", got)
		}
	})
}

func TestAClockThatIsSetBackBringsNothingBack(t *testing.T) {
	for name, notice := range map[string]func(*testing.T, *gates.Approvals, gates.ApprovalID){
		"decided late": func(t *testing.T, b *gates.Approvals, id gates.ApprovalID) {
			wantCode(t, b.Decide(t.Context(), id, gates.Decision{Verdict: gates.Allow}), fault.ApprovalClosed)
		},
		"listed":         func(t *testing.T, b *gates.Approvals, _ gates.ApprovalID) { pending(t, b) },
		"waited for":     func(t *testing.T, b *gates.Approvals, id gates.ApprovalID) { b.Wait(t.Context(), id) },
		"another asked":  func(t *testing.T, b *gates.Approvals, _ gates.ApprovalID) { request(t, b, gates.Approval{}) },
		"asked for anew": func(t *testing.T, b *gates.Approvals, _ gates.ApprovalID) { request(t, b, refund()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := store.Memory()
			defer s.Close()
			c := newClock()
			b := gates.NewApprovals(s, &gates.ApprovalsOptions{Now: c.Now})
			a := request(t, b, refund())
			c.jump(time.Hour)
			notice(t, b, a.ID)
			c.jump(-time.Hour)
			wantCode(t, b.Decide(t.Context(), a.ID, gates.Decision{Verdict: gates.Allow}), fault.ApprovalClosed)
			wantCode(t, consume(t, s, b, a.ID, refund()), fault.ApprovalClosed)
			if slices.Contains(pending(t, b), a.ID) {
				t.Error("it waits again")
			}
		})
	}
}

func TestNobodyWaitsLongerThanARequestWasToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		c := newClock()
		b := gates.NewApprovals(s, &gates.ApprovalsOptions{Now: c.Now})
		a := request(t, b, refund())
		c.jump(-24 * time.Hour)
		start := time.Now()
		d, err := b.Wait(t.Context(), a.ID)
		if err != nil || d.Verdict != gates.Deny || time.Since(start) != gates.DefaultApprovalTimeout {
			t.Errorf("got %+v, %v after %v", d, err, time.Since(start))
		}
		if next := request(t, b, refund()); next.ID == a.ID || next.Closed() {
			t.Errorf("asked again, it got %+v", next)
		}
	})
}

func TestARefusalHoldsUntilTheRequestWouldHaveRunOut(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	c := newClock()
	b := gates.NewApprovals(s, &gates.ApprovalsOptions{Now: c.Now})
	a := request(t, b, refund())
	decide(t, b, a.ID, gates.Decision{Verdict: gates.Deny, By: "dora"})
	c.jump(4 * time.Minute)
	if got := request(t, b, refund()); got.ID != a.ID || got.Decision.By != "dora" {
		t.Errorf("a resumed run got %+v", got)
	}
	c.jump(time.Minute)
	if got := request(t, b, refund()); got.ID == a.ID || got.Closed() {
		t.Errorf("much later it got %+v", got)
	}
}

func TestWhatWaitsIsListedInTheOrderInWhichItRunsOut(t *testing.T) {
	everyStore(t, func(t *testing.T, s store.Store) {
		c := newClock()
		b := gates.NewApprovals(s, &gates.ApprovalsOptions{Now: c.Now})
		var want []gates.ApprovalID
		for i := range 40 {
			a := refund()
			a.Call.Key = provider.Key(fmt.Sprint(i))
			a.Expires = c.Now().Add(time.Hour - time.Duration(i)*time.Minute)
			want = append(want, request(t, b, a).ID)
		}
		slices.Reverse(want)
		if diff := cmp.Diff(want, pending(t, b)); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		c.jump(30 * time.Minute)
		if diff := cmp.Diff(want[10:], pending(t, b)); diff != "" {
			t.Errorf("half an hour later (-want +got):\n%s", diff)
		}
		for a, err := range b.Pending(t.Context()) { // the loop may decide
			if err != nil {
				t.Fatal(err)
			}
			decide(t, b, a.ID, gates.Decision{Verdict: gates.Deny})
		}
		if left := pending(t, b); left != nil {
			t.Errorf("still waiting: %v", left)
		}
	})
}

func TestWhatWasDecidedIsKeptForAWhile(t *testing.T) {
	everyStore(t, func(t *testing.T, s store.Store) {
		c := newClock()
		b := gates.NewApprovals(s, &gates.ApprovalsOptions{Now: c.Now})
		var old []gates.ApprovalID
		for i := range 100 {
			a := refund()
			a.Call.Key = provider.Key(fmt.Sprint(i))
			old = append(old, request(t, b, a).ID)
		}
		decide(t, b, old[0], gates.Decision{Verdict: gates.Allow, Scope: gates.ThisExecution}) // all of them
		c.jump(30*24*time.Hour - time.Second)
		request(t, b, gates.Approval{Lease: "1"})
		if _, err := b.Find(t.Context(), old[0]); err != nil {
			t.Errorf("too early: %v", err)
		}
		c.jump(2 * time.Second)
		request(t, b, gates.Approval{Lease: "2"})
		gone := 0
		for _, id := range old {
			if _, err := b.Find(t.Context(), id); err != nil {
				wantCode(t, err, fault.ApprovalClosed)
				gone++
			}
		}
		if gone == 0 || gone == len(old) {
			t.Errorf("one request collected %d of %d", gone, len(old))
		}
		request(t, b, gates.Approval{Lease: "3"})
		c.jump(31 * 24 * time.Hour)
		for range 3 {
			for _, id := range pending(t, b) {
				decide(t, b, id, gates.Decision{Verdict: gates.Deny})
			}
			request(t, b, gates.Approval{Lease: "4"})
			c.jump(31 * 24 * time.Hour)
			request(t, b, gates.Approval{Lease: "5"})
		}
		count := bookRecords(t, s)
		if len(count) == 0 {
			t.Error("there are no records")
		}
		for bucket, n := range count {
			if n > 6 {
				t.Errorf("%s still has %d records", bucket, n)
			}
		}
	})
}

// bookRecords counts what is in each bucket of the book.
func bookRecords(t *testing.T, s store.Store) map[string]int {
	t.Helper()
	count := map[string]int{}
	err := s.View(t.Context(), func(tx store.Tx) error {
		for _, b := range []string{"", "/open", "/wait", "/same", "/grants", "/closed"} {
			for _, err := range tx.Scan("gates/approvals"+b, store.Range{}) {
				if err != nil {
					return err
				}
				count["gates/approvals"+b]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func TestTheEndOfAnExecutionDeniesWhatItWaitsFor(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	a := request(t, b, refund())
	other := refund()
	other.Call.Execution = "exe-10"
	c := request(t, b, other)
	question := refund()
	question.Question = &provider.Question{Message: "Really?"}
	request(t, b, question)
	if err := s.Update(t.Context(), func(tx store.Tx) error { return b.End(tx, "exe-1") }); err != nil {
		t.Fatal(err)
	}
	if d, err := b.Wait(t.Context(), a.ID); err != nil || d.Verdict != gates.Deny {
		t.Errorf("got %+v, %v", d, err)
	}
	if diff := cmp.Diff([]gates.ApprovalID{c.ID}, pending(t, b)); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}

func TestTheWaitGoesOnAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book.db")
	c := newClock()
	opts := &gates.ApprovalsOptions{Now: c.Now}
	s := openBolt(t, path)
	asked := request(t, gates.NewApprovals(s, opts), refund())
	s.Close()

	c.jump(4*time.Minute + 59*time.Second + 990*time.Millisecond)
	s = openBolt(t, path)
	defer s.Close()
	b := gates.NewApprovals(s, opts)
	calls := 0
	a, err := gates.Ask(t.Context(), b, gates.ApproverFunc(func(_ context.Context, _ *gates.Approval) (gates.Decision, error) {
		calls++
		return gates.Decision{}, nil
	}), refund(), time.Hour)
	if err != nil || a.ID != asked.ID || a.Decision.By != "timeout" || calls != 1 {
		t.Errorf("got %+v, %v after %d calls", a, err, calls)
	}
}

func TestRecordsOfALaterFormatAreRefused(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	a := request(t, b, refund())
	for record, code := range map[string]fault.Code{
		`{"format":2}`: fault.StoreUnsupported, `{}`: fault.StoreUnsupported, `{`: fault.StoreFailed, `{"format":1,"bound":"x"}`: fault.StoreFailed,
	} {
		if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Put("gates/approvals", string(a.ID), json.RawMessage(record)) }); err != nil {
			t.Fatal(err)
		}
		_, err := b.Find(t.Context(), a.ID)
		wantCode(t, err, code)
		wantCode(t, consume(t, s, b, a.ID, refund()), code)
		for _, err := range b.Pending(t.Context()) {
			wantCode(t, err, code)
		}
	}
}

func TestRequestsThatCannotBeKeptAreRefused(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := gates.OpenApprovals(s)
	long := string(make([]byte, 2<<20))
	for name, change := range map[string]func(*gates.Approval){
		"long lease":      func(a *gates.Approval) { a.Lease = long },
		"many references": func(a *gates.Approval) { a.RefIDs = slices.Repeat([]string{"element-12345"}, 100_000) },
		"not Unicode":     func(a *gates.Approval) { a.Call.Op = "\xff" },
		"long question":   func(a *gates.Approval) { a.Question = &provider.Question{Message: long} },
		"bad form": func(a *gates.Approval) {
			a.Question = &provider.Question{Schema: json.RawMessage(`{"a":1,"a":2}`)}
		},
	} {
		a := refund()
		change(&a)
		if _, err := b.Request(t.Context(), a); fault.CodeOf(err) != fault.ArgsInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	a := refund()
	a.Reason, a.Call.Operation.Description = long, long
	if got := request(t, b, a); len(got.Reason) > 5<<10 {
		t.Errorf("the reason has %d bytes", len(got.Reason))
	}
}
