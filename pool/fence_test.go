package pool_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

func TestAHeldLeaseIsRenewedForHours(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		a, b := process(t, s), process(t, s)
		made := browsers(t)
		p := a.pool(made, 1)
		b.pool(made, 1)
		l := acquire(t, p, pool.Request{})
		time.Sleep(hours)
		if err := l.Check(t.Context()); err != nil || b.told(event.LeaseReclaimed) != 0 {
			t.Errorf("got %v and %d reclaims", err, b.told(event.LeaseReclaimed))
		}
		release(t, l)
	})
}

// TestAHolderThatCannotRenewStopsBeforeItsLeaseIsReclaimed is two processes on
// one store, of which one is cut off from it.
func TestAHolderThatCannotRenewStopsBeforeItsLeaseIsReclaimed(t *testing.T) { // B154
	bubble(t, func(t *testing.T, s store.Store) {
		severed := &cut{Store: s}
		a, b := process(t, severed), process(t, s)
		made := browsers(t)
		first, second := a.pool(made, 1), b.pool(made, 1)
		held := acquire(t, first, pool.Request{})
		severed.set(true)
		wantCode(t, held.Check(t.Context()), fault.StoreFailed)
		start := time.Now()
		<-held.Done()
		if got := time.Since(start); got > pool.HoldFor {
			t.Errorf("held on for %s", got)
		}
		wantCode(t, held.Err(), fault.Unavailable)
		synctest.Wait()
		if len(made.Provisioned()) != 0 {
			t.Error("it stopped and left the instance")
		}
		next := acquire(t, second, pool.Request{})
		if got := time.Since(start); got < pool.ReclaimAfter || got > pool.ReclaimAfter+3*pool.RenewEvery {
			t.Errorf("room came free after %s", got)
		}
		if next.Fence <= held.Fence || b.told(event.LeaseReclaimed) != 1 || second.Status().Reclaimed != 1 {
			t.Errorf("fences %d, %d; status %+v", held.Fence, next.Fence, second.Status())
		}
		severed.set(false)
		time.Sleep(2 * pool.ReclaimAfter) // late renewals change nothing
		wantCode(t, held.Check(t.Context()), fault.Unavailable)
		wantCode(t, s.Update(t.Context(), held.CheckIn), fault.Unavailable)
		if err := next.Check(t.Context()); err != nil || leases(t, s) != 1 {
			t.Errorf("the next holder: %v, %d leases", err, leases(t, s))
		}
		release(t, next)
	})
}

func TestAnOutgrownFenceRefusesUseAndRenewal(t *testing.T) { // B152
	for name, notice := range map[string]func(*testing.T, *pool.Lease){
		"by a check":   func(t *testing.T, l *pool.Lease) { wantCode(t, l.Check(t.Context()), fault.Unavailable) },
		"by a renewal": func(t *testing.T, l *pool.Lease) { time.Sleep(pool.RenewEvery) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s store.Store) {
				w := process(t, s)
				made := browsers(t)
				l := acquire(t, w.pool(made, 1), pool.Request{})
				rewrite(t, s, func(r map[string]any) { // as who reclaims it does while the holder sleeps
					r["fence"], r["ending"] = r["fence"].(float64)+100, true
				})
				wantCode(t, s.Update(t.Context(), l.CheckIn), fault.Unavailable)
				notice(t, l)
				<-l.Done()
				wantCode(t, l.Err(), fault.Unavailable)
				synctest.Wait()
				if len(made.Provisioned()) != 0 {
					t.Error("the stale holder's connection lives")
				}
			})
		})
	}
}

func TestADeadConnectionIsNotUsed(t *testing.T) {
	w := process(t, store.Memory())
	made := browsers(t)
	l := acquire(t, w.pool(made, 1), pool.Request{})
	made.Drop()
	<-l.Conn.Done()
	wantCode(t, l.Check(t.Context()), fault.Unavailable)
	release(t, l)
}

func TestAStoreThatFailsHandsNothingOut(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		severed := &cut{Store: s}
		w := process(t, severed)
		f := &fake{}
		p := w.pool(f, 1)
		severed.set(true)
		_, err := p.Acquire(t.Context(), pool.Request{})
		wantCode(t, err, fault.StoreFailed)
		severed.set(false)
		made := newConn("late")
		f.provision = func(context.Context) (provider.Conn, error) {
			severed.set(true) // the record of what was made fails
			return made, nil
		}
		_, err = p.Acquire(t.Context(), pool.Request{})
		wantCode(t, err, fault.StoreFailed)
		if made.ended.Load() == 0 {
			t.Error("what was made lives")
		}
		severed.set(false)
		f.provision = nil
		start := time.Now()
		l := acquire(t, p, pool.Request{}) // once the orphaned record is reclaimed
		if time.Since(start) < pool.ReclaimAfter {
			t.Errorf("room after %s", time.Since(start))
		}
		severed.set(true)
		wantCode(t, l.Release(t.Context()), fault.StoreFailed)
		severed.set(false)
	})
}

func TestAProviderThatHangsWhileMaking(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		w := process(t, s)
		let := make(chan struct{})
		slow := newConn("slow")
		var asked atomic.Int32
		f := &fake{provision: func(context.Context) (provider.Conn, error) {
			if asked.Add(1) > 1 {
				return newConn("quick"), nil
			}
			<-let
			return slow, nil
		}}
		p := w.pool(f, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := p.Acquire(ctx, pool.Request{})
		wantCode(t, err, fault.Timeout)
		if time.Since(start) > 5*time.Second {
			t.Errorf("returned after %s", time.Since(start))
		}
		_, err = p.Acquire(t.Context(), pool.Request{Wait: time.Second})
		wantCode(t, err, fault.PoolTimeout) // it may still be made
		next := acquire(t, p, pool.Request{})
		close(let)
		synctest.Wait()
		if slow.ended.Load() != 1 || leases(t, s) != 1 {
			t.Errorf("what came late was released %d times; %d leases", slow.ended.Load(), leases(t, s))
		}
		release(t, next)
	})
}

func TestAProviderThatHangsWhileReleasing(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		w := process(t, s)
		let := make(chan struct{})
		stuck := newConn("stuck")
		stuck.release = func(context.Context) error { <-let; return nil }
		f := &fake{provision: func(context.Context) (provider.Conn, error) { return stuck, nil }}
		p := w.pool(f, 1)
		l := acquire(t, p, pool.Request{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, l.Release(ctx), fault.Timeout)
		wantCode(t, l.Release(t.Context()), fault.Timeout) // waits for the bound
		_, err := p.Acquire(t.Context(), pool.Request{Wait: time.Second})
		wantCode(t, err, fault.PoolTimeout)
		start := time.Now()
		if err := p.Close(t.Context()); !errors.Is(err, fault.Timeout) || time.Since(start) > time.Minute {
			t.Errorf("close: %v after %s", err, time.Since(start))
		}
		close(let)
	})
}
