package triggers_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// refusing is a subscription that ends with an error before anything comes.
type refusing struct {
	provider.Subscription
	err error
}

func (r refusing) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) { yield(provider.Event{}, r.err) }
}

// asked is what a peer was asked to go on from.
func (p *peer) asked() []provider.Cursor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]provider.Cursor(nil), p.afters...)
}

// forget has a peer begin its numbers anew, as one that lost what it had.
func (p *peer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log, p.afters = nil, nil
}

func TestASourceThatForgotThePositionBeginsAnewAfterAGap(t *testing.T) {
	answers := map[string]func(provider.Subscription) (provider.Subscription, error){
		"from Listen": func(provider.Subscription) (provider.Subscription, error) {
			return nil, provider.UnknownCursor("trimmed")
		},
		"from the stream": func(sub provider.Subscription) (provider.Subscription, error) {
			return refusing{sub, fault.New(fault.Unavailable, "the stream: %w", provider.UnknownCursor("trimmed"))}, nil
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory(t), trigger("t"))
				listen, forgot := w.cfg.Listen, false
				w.cfg.Listen = func(ctx context.Context, one *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
					sub, err := listen(ctx, one, after)
					if forgot && after == "2" {
						return answer(sub)
					}
					return sub, err
				}
				w.start()
				w.peers["peer"].add("e1", "e2")
				w.idle()
				w.stop()
				w.peers["peer"].forget()
				forgot = true
				w.start()
				synctest.Wait()
				w.peers["peer"].add("f1") // at a position that it had before
				time.Sleep(time.Minute)
				if s := w.status("t"); s.Gaps != 1 || s.Backward != 0 || s.Done != 1 || !s.Listening || s.Err != nil {
					t.Errorf("status %+v", s)
				}
				if told := w.events(event.Warning); len(told) != 1 || !errors.Is(told[0].Err, fault.Gap) || told[0].Source != "t" {
					t.Errorf("told %v", told)
				}
				w.again()
				w.stop()
				if diff := cmp.Diff([]provider.Cursor{"2", "", "1"}, w.peers["peer"].asked()); diff != "" {
					t.Errorf("asked for what came after (-want +got):\n%s", diff)
				}
				if s := w.status("t"); s.Gaps != 1 {
					t.Errorf("the gap was told again: %+v", s)
				}
			})
		})
	}
}

// TestOnlyOneAnswerBeginsAnew has the peer fail in other ways until it is well.
func TestOnlyOneAnswerBeginsAnew(t *testing.T) {
	for name, refused := range map[string]error{
		"a refusal":    provider.Refused("invalid_cursor", "not now"),
		"not sent":     provider.NotSent(errors.New("no route")),
		"no arguments": fault.New(fault.ArgsInvalid, "after"),
		"anything":     errors.New("boom"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory(t), trigger("t"))
				w.start()
				w.peers["peer"].add("e1")
				w.idle()
				w.peers["peer"].lose(refused)
				time.Sleep(time.Hour)
				w.peers["peer"].add("e2")
				w.peers["peer"].lose(nil)
				time.Sleep(2 * time.Minute)
				if s := w.status("t"); s.Gaps != 0 || s.Done != 2 {
					t.Errorf("status %+v", s)
				}
				for _, after := range w.peers["peer"].asked()[1:] {
					if after != "1" {
						t.Fatalf("asked for what came after %q", after)
					}
				}
				w.stop()
			})
		})
	}
}

// TestAGapThatEndsAStreamIsNoAnswerToItsBeginning has streams end, after an event
// each, as those of a reader that is too slow: the position of that event counts.
func TestAGapThatEndsAStreamIsNoAnswerToItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory(t), trigger("t"))
		listen := w.cfg.Listen
		w.cfg.Listen = func(ctx context.Context, one *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
			sub, err := listen(ctx, one, after)
			return slow{sub}, err
		}
		w.start()
		for n := range 3 {
			w.peers["peer"].add(fmt.Sprint("e", n))
		}
		time.Sleep(time.Minute)
		if s := w.status("t"); s.Gaps != 0 || s.Done != 3 {
			t.Errorf("status %+v", s)
		}
		w.stop()
	})
}

type slow struct{ provider.Subscription }

func (s slow) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) {
		for ev, err := range s.Subscription.Events() {
			if yield(ev, err) && err == nil {
				yield(provider.Event{}, fault.New(fault.Gap, "too slow"))
			}
			return
		}
	}
}

func TestAStartThatRefusesItsPositionBeginsFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var started []provider.Cursor
		source := starting(func(ctx context.Context, after provider.Cursor, emit emitFunc) error {
			if started = append(started, after); after == "old" {
				return provider.UnknownCursor("no position of this source")
			}
			if after == "" && len(started) == 1 {
				return emit(ctx, at(failed("a"), "old"))
			}
			return nil
		})
		conn := connect(t, source)
		w := newWorld(t, memory(t), triggers.Trigger{ID: "t", Connection: "peer", Event: "deploy.failed"})
		w.cfg.Listen = func(_ context.Context, _ *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
			return listen(t, conn, "deploy.failed", after), nil
		}
		w.start()
		synctest.Wait()
		w.again()
		synctest.Wait()
		w.again()
		synctest.Wait()
		w.stop()
		if diff := cmp.Diff([]provider.Cursor{"", "old", "", ""}, started); diff != "" {
			t.Errorf("started after (-want +got):\n%s", diff)
		}
		if s := w.status("t"); s.Gaps != 1 {
			t.Errorf("status %+v", s)
		}
	})
}
