package pool_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// elusive is a fake whose things can be taken back as a test says.
type elusive struct {
	fake
	reattach func() (provider.Conn, error)
}

func (l *elusive) Reattach(context.Context, json.RawMessage, *provider.ConnectOptions) (provider.Conn, error) {
	return l.reattach()
}

// What does not answer may be there still: it is ended when it does.
func TestAThingThatCannotBeReachedIsNotForgotten(t *testing.T) {
	for name, silent := range map[string]func() (provider.Conn, error){
		"error": func() (provider.Conn, error) { return nil, errors.New("network is down") },
		"panic": func() (provider.Conn, error) { panic("network is down") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s store.Store) {
				thing := newConn("1")
				var tried atomic.Bool
				f := &elusive{reattach: func() (provider.Conn, error) {
					if tried.CompareAndSwap(false, true) {
						return silent()
					}
					return thing, nil
				}}
				was := acquire(t, process(t, s).pool(f, 2), pool.Request{Execution: "x"})
				keep(t, was)
				next := process(t, s).pool(f, 2)
				l := acquire(t, next, pool.Request{Execution: "x", Resume: was.ID})
				if l.Resumed || leases(t, s) != 2 {
					t.Fatalf("%d leases, resumed %v", leases(t, s), l.Resumed)
				}
				time.Sleep(pool.ReclaimAfter + 2*pool.RenewEvery) //allow:sleep the time of a bubble
				if thing.ended.Load() == 0 || leases(t, s) != 1 {
					t.Errorf("released %d times, %d leases", thing.ended.Load(), leases(t, s))
				}
				release(t, l)
			})
		})
	}
}

// moody is a connection that panics when it is asked something once too often.
type moody struct {
	*conn
	calm atomic.Int32
}

func (m *moody) Identity() provider.Identity {
	if m.calm.Add(-1) < 0 {
		panic("no more")
	}
	return m.conn.Identity()
}

func (m *moody) Done() <-chan struct{} {
	if m.calm.Add(-1) < 0 {
		panic("no more")
	}
	return m.conn.Done()
}

func TestConnectionsThatPanicAreContained(t *testing.T) {
	for calm := range int32(8) {
		bubble(t, func(t *testing.T, s store.Store) {
			var made []*moody
			p := process(t, s).pool(&fake{provision: func(context.Context) (provider.Conn, error) {
				m := &moody{conn: newConn("1")}
				m.calm.Store(calm)
				made = append(made, m)
				return m, nil
			}}, 1)
			l, err := p.Acquire(t.Context(), pool.Request{Execution: "x"})
			if err == nil {
				time.Sleep(hours) //allow:sleep the time of a bubble, in which it is renewed all the same
				if err := l.Check(t.Context()); err != nil {
					t.Error(err)
				}
				keep(t, l)
				if l, err = p.Acquire(t.Context(), pool.Request{Execution: "x", Resume: l.ID, Wait: -1}); err == nil {
					release(t, l)
				}
			} else {
				wantCode(t, err, fault.Panicked)
			}
			for _, m := range made {
				if m.ended.Load() != 1 || leases(t, s) != 0 {
					t.Errorf("calm for %d: released %d times, %d leases", calm, m.ended.Load(), leases(t, s))
				}
			}
		})
	}
}

// slow is a store whose next commit takes a while to be told of, or comes after
// something else.
type slow struct {
	store.Store
	next   atomic.Bool
	before func() // nil is nothing
}

func (s *slow) Update(ctx context.Context, f func(store.Tx) error) error {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	err := s.Store.Update(ctx, f)
	if s.next.CompareAndSwap(true, false) {
		time.Sleep(pool.RenewEvery + time.Second) //allow:sleep the time of a bubble
	}
	return err
}

func TestALeaseThatIsTakenUpWhileItIsWatchedIsTheSame(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		db, made := &slow{Store: s}, browsers(t)
		p := process(t, db).pool(made, 1)
		was := acquire(t, p, pool.Request{Execution: "x"})
		keep(t, was)
		db.next.Store(true)
		l := acquire(t, p, pool.Request{Execution: "x", Resume: was.ID})
		if !l.Resumed || len(made.Provisioned()) != 1 {
			t.Errorf("resumed %v, %d things", l.Resumed, len(made.Provisioned()))
		}
		release(t, l)
	})
}

func TestAPoolThatClosesWhileALeaseIsTakenUpLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		db, f := &slow{Store: s}, &fake{}
		p := process(t, db).pool(f, 1)
		was := acquire(t, p, pool.Request{Execution: "x"})
		keep(t, was)
		db.next.Store(true)
		time.AfterFunc(time.Second, func() { p.Close(context.Background()) })
		_, err := p.Acquire(t.Context(), pool.Request{Execution: "x", Resume: was.ID})
		wantCode(t, err, fault.Closed)
		if was.Conn.(*conn).ended.Load() != 1 || leases(t, s) != 0 {
			t.Errorf("released %d times, %d leases", was.Conn.(*conn).ended.Load(), leases(t, s))
		}
	})
}

func TestALeaseThatEndsWhileItIsTakenOverIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		made := browsers(t)
		first := process(t, s).pool(made, 1)
		was := acquire(t, first, pool.Request{Execution: "x"})
		keep(t, was)
		db := &slow{Store: s}
		next := process(t, db)
		p := next.pool(made, 1)
		db.before = func() {
			made.Provisioned()[0].Close() // so that closing the pool has nothing to leave
			first.Close(t.Context())
		}
		l := acquire(t, p, pool.Request{Execution: "x", Resume: was.ID})
		if l.Resumed || leases(t, s) != 1 {
			t.Errorf("resumed %v, %d leases", l.Resumed, leases(t, s))
		}
		release(t, l)
	})
}
