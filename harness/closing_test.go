package harness_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// tenacious makes things whose release takes so long, unless it is cut.
type tenacious struct {
	*dialler
	takes time.Duration
	now   atomic.Int32 // releases that run
	cut   atomic.Int32 // that were cut
}

func (p *tenacious) Provision(context.Context, *provider.ProvisionRequest, *provider.ConnectOptions) (provider.Conn, error) {
	l := newLine("", "act")
	l.release = func(ctx context.Context) error {
		p.now.Add(1)
		defer p.now.Add(-1)
		select {
		case <-time.After(p.takes):
			return nil
		case <-ctx.Done():
			p.cut.Add(1)
			return ctx.Err()
		}
	}
	return l, nil
}

// Close has ended all releases of things when it returns, one way or the other.
func TestCloseLeavesNoReleaseOfAThingBehind(t *testing.T) {
	for name, is := range map[string]struct {
		takes time.Duration
		cut   int32
	}{"long": {12 * time.Second, 0}, "too long": {time.Minute, 1}} {
		for _, kept := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := store.Memory()
					defer st.Close()
					pools := map[connection.Name]*tenacious{"one": {takes: is.takes}, "two": {takes: is.takes}}
					config := harness.Config{Name: "n", Store: st, Connections: connection.Set{}}
					var all []steps.Step
					for name, p := range pools {
						p.dialler = untouchable(t)
						config.Connections[name] = connection.Entry{Provider: p, Pool: &connection.Pool{Max: 1}}
						all = append(all, steps.Call{ID: steps.ID(name), Connection: name, Op: "act"})
					}
					h, err := harness.New(config)
					if err != nil {
						t.Fatal(err)
					}
					leave := then("leave", func(c steps.Context) error {
						if kept {
							return errors.New("no")
						}
						<-c.Done()
						return c.Err()
					})
					ran := make(chan struct{})
					go func() {
						defer close(ran)
						if _, err := h.Run(t.Context(), sequence("s", append(all, leave)...), nil, nil); err == nil {
							t.Error("the run succeeded")
						}
					}()
					synctest.Wait()
					began := time.Now()
					err = h.Close(t.Context())
					if took := time.Since(began); (err != nil) != (is.cut > 0) || took >= harness.CloseLimit {
						t.Errorf("%v after %s", err, took)
					}
					if is.cut > 0 {
						wantCode(t, err, fault.Timeout)
					}
					for name, p := range pools {
						if p.now.Load() != 0 || p.cut.Load() != is.cut {
							t.Errorf("%s: %d releases run, %d were cut", name, p.now.Load(), p.cut.Load())
						}
					}
					<-ran
				})
			})
		}
	}
}
