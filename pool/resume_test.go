package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

func keep(t *testing.T, l *pool.Lease) {
	t.Helper()
	if err := l.Keep(t.Context()); err != nil {
		t.Error(err)
	}
	wantCode(t, l.Check(t.Context()), fault.Closed)
	release(t, l) // does nothing
}

func TestAKeptLeaseComesBackToItsRun(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		w := process(t, s)
		made := browsers(t)
		p := w.pool(made, 1)
		was := acquire(t, p, pool.Request{Execution: "x", Path: "/p"})
		keep(t, was)
		time.Sleep(pool.ReclaimAfter - time.Second)
		_, err := p.Acquire(t.Context(), pool.Request{Execution: "y", Path: "/p", Resume: was.ID, Wait: -1})
		wantCode(t, err, fault.PoolTimeout) // another run gets no such thing
		l := acquire(t, p, pool.Request{Execution: "x", Path: "/p", Resume: was.ID})
		if !l.Resumed || l.ID != was.ID || l.Identity != was.Identity || l.Fence <= was.Fence {
			t.Errorf("got %+v, was %+v", l, was)
		}
		wantCode(t, was.Check(t.Context()), fault.Closed)
		time.Sleep(hours)
		if err := l.Check(t.Context()); err != nil {
			t.Error(err)
		}
		release(t, l)
	})
}

func TestAKeptLeaseIsReclaimed(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		w := process(t, s)
		made := browsers(t)
		p := w.pool(made, 1)
		was := acquire(t, p, pool.Request{Execution: "x"})
		keep(t, was)
		time.Sleep(pool.ReclaimAfter + 2*pool.RenewEvery)
		if len(made.Provisioned()) != 0 || leases(t, s) != 0 || w.told(event.LeaseReclaimed) != 1 {
			t.Errorf("%d things, %d leases, %v", len(made.Provisioned()), leases(t, s), w.events)
		}
		l := acquire(t, p, pool.Request{Execution: "x", Resume: was.ID})
		if l.Resumed || l.ID == was.ID || l.Identity == was.Identity {
			t.Errorf("got %+v, was %+v", l, was)
		}
		release(t, l)
	})
}

func TestAKeptLeaseWhoseConnectionDiedIsReplaced(t *testing.T) {
	w := process(t, store.Memory())
	f := &fake{}
	p := w.pool(f, 1)
	was := acquire(t, p, pool.Request{Execution: "x"})
	keep(t, was)
	dies := was.Conn.(*conn)
	dies.once.Do(func() { close(dies.done) })
	l := acquire(t, p, pool.Request{Execution: "x", Resume: was.ID})
	if l.Resumed || l.Identity == was.Identity {
		t.Errorf("got %+v, was %+v", l, was)
	}
	release(t, l)
}

func TestAKeptLeaseComesBackInAnotherProcess(t *testing.T) {
	for _, later := range []time.Duration{0, hours} { // when the first has not seen it yet, and when it has
		bubble(t, func(t *testing.T, s store.Store) {
			made := browsers(t)
			first, second := process(t, s).pool(made, 1), process(t, s)
			was := acquire(t, first, pool.Request{Execution: "x"})
			keep(t, was)
			l := acquire(t, second.pool(made, 1), pool.Request{Execution: "x", Resume: was.ID})
			if !l.Resumed || l.ID != was.ID || l.Identity != was.Identity || l.Owner != second.owner.ID() {
				t.Errorf("got %+v, was %+v", l, was)
			}
			time.Sleep(later)
			// The process that kept it must not end what is another's now.
			if err := first.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := l.Check(t.Context()); err != nil || len(made.Provisioned()) != 1 {
				t.Errorf("got %v, %d things", err, len(made.Provisioned()))
			}
			release(t, l)
			allGone(t, s, made)
		})
	}
}

// A process that closes leaves what it kept to the next one, if that can take it
// back; what it still holds it ends.
func TestAKeptLeaseOutlivesTheClosingOfItsProcess(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		a, b := process(t, s), process(t, s)
		made := browsers(t)
		first, second := a.pool(made, 2), b.pool(made, 2)
		was := acquire(t, first, pool.Request{Execution: "x"})
		held := acquire(t, first, pool.Request{Execution: "y"})
		keep(t, was)
		if err := first.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(made.Provisioned()); n != 1 || live(held.Conn) || live(was.Conn) {
			t.Errorf("%d things are left", n)
		}
		l := acquire(t, second, pool.Request{Execution: "x", Resume: was.ID})
		if !l.Resumed || l.Identity != was.Identity {
			t.Errorf("got %+v, was %+v", l, was)
		}
		release(t, l)
		allGone(t, s, made)
	})
}

// What a run leased without writing it down is ended when the run goes on.
func TestWhatAnExecutionLeftIsEnded(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		w := process(t, s)
		made := browsers(t)
		p := w.pool(made, 3)
		for _, r := range []pool.Request{{Execution: "x", Path: "/a"}, {Execution: "other"}} {
			keep(t, acquire(t, p, r))
		}
		held := acquire(t, p, pool.Request{Execution: "x", Path: "/b"})
		if err := p.EndLeft(t.Context(), "x"); err != nil {
			t.Error(err)
		}
		if n := len(made.Provisioned()); n != 2 || held.Check(t.Context()) != nil {
			t.Errorf("%d things are left, %v", n, held.Check(t.Context()))
		}
		release(t, held)
	})
}

func live(c provider.Conn) bool {
	select {
	case <-c.Done():
		return false
	default:
		return true
	}
}

func TestALeaseIsNotTakenFromAHolderThatLives(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		a, b := process(t, s), process(t, s)
		made := browsers(t)
		first, second := a.pool(made, 2), b.pool(made, 2)
		held := acquire(t, first, pool.Request{Execution: "x"})
		for _, wait := range []time.Duration{-1, 0} {
			_, err := second.Acquire(t.Context(), pool.Request{Execution: "x", Resume: held.ID, Wait: wait})
			wantCode(t, err, fault.Unavailable)
		}
		if err := held.Check(t.Context()); err != nil {
			t.Error(err)
		}
		release(t, held)
	})
}

func TestALeaseWhoseHolderWentSilentIsReplacedOnceItMustHaveStopped(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		severed := &cut{Store: s}
		a, b := process(t, severed), process(t, s)
		made := browsers(t)
		first, second := a.pool(made, 1), b.pool(made, 1)
		was := acquire(t, first, pool.Request{Execution: "x"})
		severed.set(true)
		start := time.Now()
		l := acquire(t, second, pool.Request{Execution: "x", Resume: was.ID})
		if l.Resumed || l.ID == was.ID || time.Since(start) < pool.ReclaimAfter {
			t.Errorf("got %+v after %s", l, time.Since(start))
		}
		synctest.Wait()
		release(t, l)
		severed.set(false)
	})
}
