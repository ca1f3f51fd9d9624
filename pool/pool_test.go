package pool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/store"
)

func TestALeaseIsAnInstanceOfItsOwn(t *testing.T) { // B150
	stores(t, func(t *testing.T, s store.Store) {
		w := process(t, s)
		made := browsers(t)
		p := w.pool(made, 2)
		a := acquire(t, p, pool.Request{Execution: "x", Path: "/a"})
		b := acquire(t, p, pool.Request{Execution: "x", Path: "/b"})
		if a.ID == b.ID || a.Identity == b.Identity || b.Fence <= a.Fence || a.Path != "/a" || a.Owner != w.owner.ID() {
			t.Errorf("got %+v and %+v", a, b)
		}
		want := connection.PoolStatus{MaxOpen: 2, Open: 2, InUse: 2}
		if diff := cmp.Diff(want, p.Status()); diff != "" {
			t.Error(diff)
		}
		if err := errors.Join(a.Check(t.Context()), s.Update(t.Context(), b.CheckIn)); err != nil {
			t.Error(err)
		}
		release(t, a)
		release(t, a)
		wantCode(t, a.Check(t.Context()), fault.Closed)
		wantCode(t, a.Err(), fault.Closed)
		release(t, b)
		c := acquire(t, p, pool.Request{Execution: "x"})
		if c.Identity == a.Identity || c.Identity == b.Identity || c.Fence <= b.Fence {
			t.Errorf("an instance was handed on: %+v", c)
		}
		release(t, c)
		if leases(t, s) != 0 || len(made.Provisioned()) != 0 || w.told(event.LeaseAcquired) != 3 || w.told(event.LeaseReleased) != 3 {
			t.Errorf("%d leases, %d things, events %v", leases(t, s), len(made.Provisioned()), w.events)
		}
	})
}

func TestCapacityIsNeverExceeded(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		w := process(t, s)
		made := browsers(t)
		p := w.pool(made, 3)
		var now, most atomic.Int32
		var group sync.WaitGroup
		for n := range 64 {
			group.Go(func() {
				l, err := p.Acquire(t.Context(), pool.Request{Execution: provider.ExecutionID(fmt.Sprint(n))})
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), now.Add(1), int32(len(made.Provisioned()))))
				now.Add(-1)
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if most.Load() > 3 || leases(t, s) != 0 {
			t.Errorf("%d at once, %d left", most.Load(), leases(t, s))
		}
		if st := p.Status(); st.Open != 0 || st.InUse != 0 {
			t.Errorf("got %+v", st)
		}
	})
}

// bubble runs f where the clock is a fake, with a store in memory.
func bubble(t *testing.T, f func(*testing.T, store.Store)) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		t.Cleanup(func() { s.Close() })
		f(t, s)
	})
}

func TestTheQueueIsServedInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		w := process(t, s)
		p := w.pool(browsers(t), 1)
		held := acquire(t, p, pool.Request{})
		var order []int
		var mu sync.Mutex
		var group sync.WaitGroup
		for n := range 5 {
			group.Go(func() {
				ctx := t.Context()
				if n == 2 { // gives up while in the middle
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Second)
					defer cancel()
				}
				l, err := p.Acquire(ctx, pool.Request{})
				if n == 2 {
					wantCode(t, err, fault.Timeout)
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, n)
				mu.Unlock()
				time.Sleep(time.Second)
				release(t, l)
			})
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		release(t, held)
		group.Wait()
		if !slices.Equal(order, []int{0, 1, 3, 4}) {
			t.Errorf("served %v", order)
		}
		if st := p.Status(); st.WaitCount != 5 || st.WaitDuration != time.Second+(2+3+4+5)*time.Second {
			t.Errorf("got %+v", st)
		}
	})
}

func TestAWaitRunsOut(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		p := process(t, s).pool(browsers(t), 1)
		defer release(t, acquire(t, p, pool.Request{}))
		for wait, want := range map[time.Duration]time.Duration{-1: 0, time.Minute: time.Minute, 0: pool.DefaultWait} {
			start := time.Now()
			_, err := p.Acquire(t.Context(), pool.Request{Wait: wait})
			if wantCode(t, err, fault.PoolTimeout); time.Since(start) != want {
				t.Errorf("wait %s: returned after %s", wait, time.Since(start))
			}
		}
	})
}

func TestSetupIsCheckedAndHostFieldsAreTheHosts(t *testing.T) {
	profile := &provider.Profile{Name: "browser", HostOnly: []string{"launch"}, Setup: json.RawMessage(
		`{"type":"object","required":["path"],"properties":{"url":{"type":"string"},"path":{"type":"string"}},"additionalProperties":false}`)}
	w := process(t, store.Memory())
	p := w.open(pool.Config{Name: "browsers", Provider: browsers(t), Max: 1, Setup: map[string]any{"path": "app", "extra": 1},
		Options: &provider.ConnectOptions{Profiles: []*provider.Profile{profile}}})
	for _, setup := range []string{`{"path":"evil"}`, `{"extra":2}`, `{"launch":"sh"}`, `{"url":1}`, `{"other":1}`, `[]`, `{"url":"a","url":"b"}`, `{`} {
		_, err := p.Acquire(t.Context(), pool.Request{Setup: json.RawMessage(setup)})
		wantCode(t, err, fault.ArgsInvalid)
	}
	l := acquire(t, p, pool.Request{Setup: json.RawMessage(`{ "url": "u" }`)})
	res, err := l.Conn.Call(t.Context(), &provider.CallRequest{Op: "setup", Args: json.RawMessage(`{}`), Key: "k"})
	if err != nil || string(res.Value) != `[{"url":"u"},{"extra":1,"path":"app"}]` {
		t.Errorf("got %v, %v", res, err)
	}
	release(t, l)
}

func TestNewRefusesMistakes(t *testing.T) {
	w := process(t, store.Memory())
	good := pool.Config{Name: "b", Provider: browsers(t), Owner: w.owner, Max: 1}
	for name, spoil := range map[string]func(*pool.Config){
		"name":     func(c *pool.Config) { c.Name = "a:b" },
		"owner":    func(c *pool.Config) { c.Owner = nil },
		"provider": func(c *pool.Config) { c.Provider = nil },
		"max":      func(c *pool.Config) { c.Max = 0 },
		"setup":    func(c *pool.Config) { c.Setup = 1 },
		"no json":  func(c *pool.Config) { c.Setup = func() {} },
		"schema": func(c *pool.Config) {
			c.Options = &provider.ConnectOptions{Profiles: []*provider.Profile{{Name: "p", Setup: json.RawMessage(`{"type":1}`)}}}
		},
	} {
		c := good
		spoil(&c)
		if _, err := pool.New(c); !errors.Is(err, fault.ConnectionInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAProviderThatFailsLeavesRoom(t *testing.T) {
	w := process(t, store.Memory())
	made := browsers(t)
	made.FailConnect(inmemory.Fault{NotSent: true})
	p := w.pool(made, 1)
	_, err := p.Acquire(t.Context(), pool.Request{})
	wantCode(t, err, fault.NotSent)
	release(t, acquire(t, p, pool.Request{}))
}

func TestAPanickingProviderIsContained(t *testing.T) {
	w := process(t, store.Memory())
	p := w.pool(&fake{provision: func(context.Context) (provider.Conn, error) { panic("boom") }}, 1)
	_, err := p.Acquire(t.Context(), pool.Request{})
	wantCode(t, err, fault.Panicked)
	_, err = p.Acquire(t.Context(), pool.Request{Wait: -1})
	wantCode(t, err, fault.Panicked) // and not pool_timeout
}

func TestCloseCutsReleasesWhenItsTimeIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		w := process(t, s)
		slow, over := newConn("slow"), make(chan struct{})
		slow.release = func(ctx context.Context) error {
			defer close(over)
			<-ctx.Done()
			return ctx.Err()
		}
		p := w.pool(&fake{provision: func(context.Context) (provider.Conn, error) { return slow, nil }}, 1)
		acquire(t, p, pool.Request{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		wantCode(t, p.Close(ctx), fault.Timeout)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("closed after %s", took)
		}
		select {
		case <-over:
		default:
			t.Error("the release runs on")
		}
		if n := leases(t, s); n != 1 {
			t.Errorf("%d leases are left for whoever reclaims them", n)
		}
	})
}

func TestCloseEndsWhatIsOut(t *testing.T) {
	bubble(t, func(t *testing.T, s store.Store) {
		w := process(t, s)
		made := browsers(t)
		p := w.pool(made, 2)
		a, _ := acquire(t, p, pool.Request{}), acquire(t, p, pool.Request{})
		queued := make(chan error)
		go func() {
			_, err := p.Acquire(t.Context(), pool.Request{})
			queued <- err
		}()
		synctest.Wait()
		if err := errors.Join(p.Close(t.Context()), p.Close(t.Context())); err != nil {
			t.Error(err)
		}
		wantCode(t, <-queued, fault.Closed)
		wantCode(t, a.Check(t.Context()), fault.Closed)
		release(t, a)
		_, err := p.Acquire(t.Context(), pool.Request{})
		wantCode(t, err, fault.Closed)
		if err := w.owner.Close(t.Context()); err != nil || leases(t, s) != 0 || len(made.Provisioned()) != 0 {
			t.Errorf("%v, %d leases, %d things", err, leases(t, s), len(made.Provisioned()))
		}
	})
}
