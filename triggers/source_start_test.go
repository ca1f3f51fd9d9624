package triggers_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

type emitFunc = func(context.Context, triggers.Emission) error

// starting makes a source whose Start is f.
func starting(f func(context.Context, provider.Cursor, emitFunc) error) *triggers.Source {
	return deploys(&triggers.SourceOptions{Start: f})
}

func at(m triggers.Emission, c provider.Cursor) triggers.Emission {
	m.Cursor = c
	return m
}

func TestStartContinuesFromTheStoredPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := starting(func(ctx context.Context, after provider.Cursor, emit emitFunc) error {
			return emit(ctx, at(failed("after-"+string(after)), after+"1"))
		})
		c := connect(t, s)
		first := store(listen(t, c, "deploy.failed", ""), nil)
		second := store(listen(t, c, "deploy.failed", "7"), nil)
		synctest.Wait()
		for want, reader := range map[string]*storing{"after-": first, "after-7": second} {
			if diff := cmp.Diff([]string{want}, reader.ids()); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		}
		if got := second.batches[0][0].Cursor; got != "71" {
			t.Errorf("cursor %q", got)
		}
	})
}

func TestOtherTypesMoveThePositionOnQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var returned []error
		s := starting(func(ctx context.Context, _ provider.Cursor, emit emitFunc) error {
			done := failed("b")
			done.Type = "deploy.done"
			for _, m := range []triggers.Emission{{Cursor: "1"}, at(failed("a"), "2"), at(done, "3"), done} {
				returned = append(returned, emit(ctx, m))
			}
			return nil
		})
		reader := store(listen(t, connect(t, s), "deploy.failed", ""), nil)
		synctest.Wait()
		want := [][]provider.Event{
			{{Kind: provider.EventCursor, Type: "deploy.failed", Cursor: "1"}},
			{{Kind: provider.EventOccurred, ID: "a", Type: "deploy.failed", Cursor: "2"}},
			{{Kind: provider.EventCursor, Type: "deploy.failed", Cursor: "3"}},
		}
		if diff := cmp.Diff(want, reader.batches, cmpopts.IgnoreFields(provider.Event{}, "Time", "Payload")); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
		if err := errors.Join(returned...); err != nil || len(returned) != 4 {
			t.Errorf("emit: %v", returned)
		}
	})
}

func TestAStartThatEndsBadlyEndsTheSubscription(t *testing.T) {
	errDown := errors.New("down")
	for name, tt := range map[string]struct {
		start func(context.Context, provider.Cursor, emitFunc) error
		want  error
	}{
		"error":       {func(context.Context, provider.Cursor, emitFunc) error { return errDown }, errDown},
		"error, code": {func(context.Context, provider.Cursor, emitFunc) error { return errDown }, fault.Unavailable},
		"panic":       {func(context.Context, provider.Cursor, emitFunc) error { panic("out of order") }, fault.Panicked},
		"goexit":      {func(context.Context, provider.Cursor, emitFunc) error { runtime.Goexit(); return nil }, fault.Panicked},
		"bad payload": {func(ctx context.Context, _ provider.Cursor, emit emitFunc) error {
			return emit(ctx, triggers.Emission{Type: "deploy.failed", ID: "a", Payload: 7})
		}, fault.ArgsInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader := store(listen(t, connect(t, starting(tt.start)), "deploy.failed", ""), nil)
				<-reader.done
				if !errors.Is(reader.err, tt.want) {
					t.Errorf("got %v, want %v", reader.err, tt.want)
				}
			})
		})
	}
}

func TestAStartThatReturnsLeavesTheSubscriptionToTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := starting(func(context.Context, provider.Cursor, emitFunc) error { return nil })
		reader := store(listen(t, connect(t, s), "deploy.failed", ""), nil)
		synctest.Wait()
		if err := s.Emit(t.Context(), failed("pushed")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"pushed"}, reader.ids()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

func TestStartEndsWithItsSubscription(t *testing.T) {
	for name, end := range map[string]func(context.Context, provider.Conn, provider.Subscription) error{
		"closed":   func(ctx context.Context, _ provider.Conn, sub provider.Subscription) error { return sub.Close(ctx) },
		"released": func(ctx context.Context, c provider.Conn, _ provider.Subscription) error { return c.Release(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				returned := false
				var told error
				s := starting(func(ctx context.Context, _ provider.Cursor, emit emitFunc) error {
					told = emit(ctx, failed("a")) // nobody reads
					returned = true
					return told
				})
				c := connect(t, s)
				sub := listen(t, c, "deploy.failed", "")
				synctest.Wait()
				if err := end(t.Context(), c, sub); err != nil {
					t.Error(err)
				}
				if !returned || !errors.Is(told, fault.Unavailable) && !errors.Is(told, fault.Cancelled) {
					t.Errorf("Start returned: %t; it was told %v", returned, told)
				}
			})
		})
	}
}

func TestTheContextOfStartEndsWithItsSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := starting(func(ctx context.Context, _ provider.Cursor, _ emitFunc) error { <-ctx.Done(); return ctx.Err() })
		reader := store(listen(t, connect(t, s), "deploy.failed", ""), nil)
		sub := listen(t, connect(t, s), "deploy.failed", "")
		synctest.Wait()
		if err := sub.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if closed(reader.done) {
			t.Error("another subscription ended as well")
		}
	})
}

func TestClosingDoesNotWaitForAStartThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		s := starting(func(context.Context, provider.Cursor, emitFunc) error { <-end; return nil })
		sub := listen(t, connect(t, s), "deploy.failed", "")
		if err := sub.Close(t.Context()); !errors.Is(err, fault.Timeout) {
			t.Errorf("got %v, want %s", err, fault.Timeout)
		}
		close(end)
		synctest.Wait()
		if err := sub.Close(t.Context()); err != nil {
			t.Errorf("once it has ended: %v", err)
		}
	})
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
