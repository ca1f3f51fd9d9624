package providertest

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// burst is how many events the properties below emit at a time.
const burst = 5

func listenCases() []testCase {
	events := needEvents()
	return []testCase{
		{name: "Listen/is live when it returns", needs: []need{events, needEmit()}, check: listenLive},
		{name: "Listen/starts from now without a cursor", needs: []need{events, needEmit()}, check: listenFromNow},
		{name: "Listen/delivers each event once and in one order", needs: []need{events, needEmit()}, check: listenOrder},
		{name: "Listen/a reader that sleeps holds up nobody", needs: []need{events, needEmit()}, check: listenSlowReader},
		{name: "Listen/Close ends a reader without an error", needs: []need{events}, check: listenClose},
		{name: "Listen/Close may come twice, at a time, and unread", needs: []need{events}, check: listenCloseTwice},
		{name: "Listen/breaking off leaves the connection usable", needs: []need{events, needEmit()}, check: listenBreak},
		{name: "Listen/an unknown event costs only that call", needs: []need{events}, check: listenUnknown},
		{name: "Listen/a context that has ended is an error", needs: []need{events}, check: listenCancelled},
		{name: "Listen/its context bounds the start only", needs: []need{events, needEmit()}, check: listenOutlives},
		{name: "Listen/Release ends the stream", needs: []need{events}, check: listenRelease},
		{name: "Listen/the peer's death ends the stream with an error", needs: []need{events, needKill()}, check: listenDeath},
	}
}

func (s *session) eventName(c provider.Conn) string {
	if s.cfg.Event != "" {
		return s.cfg.Event
	}
	if m := s.manifest(c); len(m.Events) > 0 {
		return m.Events[0].Name
	}
	s.Fatalf("events are declared, but the manifest has none")
	return ""
}

// listen subscribes after a cursor, or ends the subtest.
func (s *session) listen(ctx context.Context, c provider.Conn, after provider.Cursor) provider.Subscription {
	s.Helper()
	sub, err := ability[provider.Listener](s, c).Listen(ctx, &provider.ListenRequest{Event: s.eventName(c), After: after})
	if s.note(err) != nil || sub == nil {
		s.Fatalf("Listen: got %v, %v", sub, err)
	}
	return sub
}

func (s *session) emit(n int) {
	for range n {
		s.cfg.Emit(s.t, s.p)
	}
}

// take reads n events, breaks off and closes the subscription. A gap fails.
func (s *session) take(ctx context.Context, sub provider.Subscription, n int) []provider.Event {
	s.Helper()
	var got []provider.Event
	s.promptly("reading events", func() {
		for e, err := range sub.Events() {
			if s.note(err) != nil {
				s.Errorf("the stream ended after %d of %d events: %v", len(got), n, err)
				break
			}
			if s.checkEvent(e) {
				got = append(got, e)
			}
			if len(got) == n {
				break
			}
		}
		s.note(sub.Close(ctx))
	})
	if len(got) != n {
		s.Fatalf("got %d events, want %d", len(got), n)
	}
	return got
}

// checkEvent checks what holds for each event, and reports whether something
// happened.
func (s *session) checkEvent(e provider.Event) bool {
	s.Helper()
	switch e.Kind {
	case provider.EventCursor:
		return false
	case provider.EventGap:
		s.Errorf("a gap before cursor %s although nothing was lost", fault.Quote(string(e.Cursor)))
		return false
	case provider.EventOccurred, "":
	default:
		s.Errorf("an event of unknown kind %q", e.Kind)
	}
	if e.ID == "" || e.Type == "" {
		s.Errorf("an event lacks its id or its type: %+v", e)
	}
	if len(e.Payload) > 0 && !json.Valid(e.Payload) {
		s.Errorf("payload is not JSON: %s", fault.Quote(string(e.Payload)))
	}
	return true
}

func ids(events []provider.Event) []provider.EventID {
	var out []provider.EventID
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

func (s *session) wantIDs(what string, got, want []provider.Event) {
	s.Helper()
	if g, w := encoded(ids(got)), encoded(ids(want)); g != w {
		s.Errorf("%s: got events %s, want %s", what, g, w)
	}
}

func listenLive(ctx context.Context, s *session) {
	sub := s.listen(ctx, s.connect(ctx), "")
	s.emit(1)
	s.take(ctx, sub, 1)
}

func listenFromNow(ctx context.Context, s *session) {
	c := s.connect(ctx)
	first := s.listen(ctx, c, "")
	s.emit(1)
	past := s.take(ctx, first, 1)[0]
	second := s.listen(ctx, c, "")
	s.emit(1)
	if got := s.take(ctx, second, 1)[0]; got.ID == past.ID {
		s.Errorf("a subscription without a cursor began with the older event %s", got.ID)
	}
}

func listenOrder(ctx context.Context, s *session) {
	c := s.connect(ctx)
	first, second := s.listen(ctx, c, ""), s.listen(ctx, c, "")
	s.emit(burst)
	got := s.take(ctx, first, burst)
	s.wantIDs("second subscription", s.take(ctx, second, burst), got)
	seen := map[provider.EventID]bool{}
	for i, e := range got {
		if seen[e.ID] {
			s.Errorf("event %s was delivered twice", e.ID)
		}
		seen[e.ID] = true
		if i > 0 && e.Time.Before(got[i-1].Time) {
			s.Errorf("event %s was delivered after the later %s", e.ID, got[i-1].ID)
		}
	}
}

func listenSlowReader(ctx context.Context, s *session) {
	c := s.connect(ctx)
	asleep, awake := s.listen(ctx, c, ""), s.listen(ctx, c, "")
	s.promptly("emitting while a reader sleeps", func() { s.emit(10 * burst) })
	s.take(ctx, awake, 10*burst)
	s.works(ctx, c)
	s.promptly("Close of a subscription nobody read", func() { s.note(asleep.Close(ctx)) })
}

// read runs through a subscription; the channel yields its last error.
func (s *session) read(sub provider.Subscription) <-chan error {
	result := make(chan error, 1)
	s.async(func() {
		var last error
		for _, err := range sub.Events() {
			last = s.note(err)
		}
		result <- last
	})
	return result
}

func listenClose(ctx context.Context, s *session) {
	sub := s.listen(ctx, s.connect(ctx), "")
	result := s.read(sub)
	s.promptly("Close", func() { s.note(sub.Close(ctx)) })
	if err := s.soon("the reader of a closed subscription", result); err != nil {
		s.Errorf("the stream ended with %v after Close, want no error", err)
	}
}

func listenCloseTwice(ctx context.Context, s *session) {
	c := s.connect(ctx)
	sub := s.listen(ctx, c, "")
	var all sync.WaitGroup
	for range 4 {
		done := s.async(func() {
			if err := s.note(sub.Close(ctx)); err != nil {
				s.Errorf("Close: %v", err)
			}
		})
		all.Go(func() { <-done })
	}
	all.Wait()
	if err := s.note(sub.Close(ctx)); err != nil {
		s.Errorf("Close again: %v", err)
	}
	s.works(ctx, c)
}

func listenBreak(ctx context.Context, s *session) {
	c := s.connect(ctx)
	for range 3 {
		sub := s.listen(ctx, c, "")
		s.emit(2)
		s.take(ctx, sub, 1)
	}
	s.works(ctx, c)
}

func listenUnknown(ctx context.Context, s *session) {
	c := s.connect(ctx)
	_, err := ability[provider.Listener](s, c).Listen(ctx, &provider.ListenRequest{Event: "providertest.no_such_event"})
	s.note(err)
	if w := word(err); w != fault.NotSent && w != fault.OpFailed {
		s.Errorf("unknown event: got %v, want NotSent or Refused", err)
	}
	s.works(ctx, c)
}

func listenCancelled(ctx context.Context, s *session) {
	c := s.connect(ctx)
	l := ability[provider.Listener](s, c)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	s.promptly("Listen with a context that has ended", func() {
		if _, err := l.Listen(ended, &provider.ListenRequest{Event: s.eventName(c)}); s.note(err) == nil {
			s.Errorf("Listen succeeded although its context had ended")
		}
	})
}

func listenOutlives(ctx context.Context, s *session) {
	bound, cancel := context.WithCancel(ctx)
	sub := s.listen(bound, s.connect(ctx), "")
	cancel()
	s.emit(1)
	s.take(ctx, sub, 1)
}

func listenRelease(ctx context.Context, s *session) {
	c := s.connect(ctx)
	sub := s.listen(ctx, c, "")
	result := s.read(sub)
	s.release(ctx, c)
	s.soon("the reader of a released connection", result)
	s.promptly("Close after Release", func() { s.note(sub.Close(ctx)) })
}

func listenDeath(ctx context.Context, s *session) {
	c := s.connect(ctx)
	result := s.read(s.listen(ctx, c, ""))
	s.cfg.Kill(s.t, s.p)
	if err := s.soon("the reader whose peer died", result); err == nil {
		s.Errorf("the stream ended without an error when the peer died")
	}
}
