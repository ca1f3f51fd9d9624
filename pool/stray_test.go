package pool_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/store"
)

func TestALeaseWhosePoolIsGoneIsListedAndDropped(t *testing.T) {
	t.Parallel()
	s, children := killed(t)
	w := process(t, s)
	if err := w.owner.Reap(t.Context()); err != nil {
		t.Error(err)
	}
	id := leaseOf(t, s, "lasting")
	if all, err := w.owner.Strays(t.Context(), []string{"lasting"}); err != nil || len(all) != 0 {
		t.Errorf("got %v, %v of a pool that is there", all, err)
	}
	want := []pool.Stray{{ID: id, Pool: "lasting", Execution: "x", Instance: strconv.Itoa(children["lasting"])}}
	all, err := w.owner.Strays(t.Context(), nil)
	if diff := cmp.Diff(want, all); err != nil || diff != "" {
		t.Errorf("%v, leases (-want +got):\n%s", err, diff)
	}
	for _, none := range []struct {
		pools []string
		id    string
	}{{[]string{"lasting"}, id}, {nil, "other"}} {
		if dropped, err := w.owner.DropStray(t.Context(), none.pools, none.id, "why"); err != nil || dropped != nil {
			t.Errorf("dropped %v, %v", dropped, err)
		}
	}
	dropped, err := w.owner.DropStray(t.Context(), nil, id, "why")
	if err != nil || dropped == nil || *dropped != want[0] || leases(t, s) != 0 || w.told(event.LeaseReclaimed) != 2 {
		t.Errorf("dropped %v, %v; %d leases, %v", dropped, err, leases(t, s), w.events)
	}
	for kind, pid := range children {
		if running(pid) {
			t.Errorf("the child %s runs", kind)
		}
	}
	if n := count(t, s, "pool/owners"); n != 1 {
		t.Errorf("%d owners are remembered", n)
	}
}

func TestOfAPoolThatIsElsewhereOnlyWhatWaitsIsAStray(t *testing.T) {
	s := store.Memory()
	a, b := process(t, s), process(t, s)
	p := a.pool(browsers(t), 2)
	held, kept := acquire(t, p, pool.Request{Execution: "held"}), acquire(t, p, pool.Request{Execution: "kept"})
	if err := kept.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := b.owner.Strays(t.Context(), nil)
	if err != nil || len(all) != 1 || all[0].ID != kept.ID {
		t.Errorf("got %v, %v", all, err)
	}
	if dropped, err := b.owner.DropStray(t.Context(), nil, held.ID, "why"); err != nil || dropped != nil {
		t.Errorf("dropped %v, %v of who holds it", dropped, err)
	}
	if err := held.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if dropped, err := b.owner.DropStray(t.Context(), nil, kept.ID, "why"); err != nil || dropped == nil {
		t.Errorf("dropped %v, %v", dropped, err)
	}
	if l, err := p.Acquire(t.Context(), pool.Request{Execution: "kept", Resume: kept.ID, Wait: -1}); err == nil && l.Resumed || fault.CodeOf(err) == fault.StoreFailed {
		t.Errorf("what was dropped came back: %v, %v", l, err)
	}
}
