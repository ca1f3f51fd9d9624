package providertest

import (
	"context"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

func replayCases() []testCase {
	events, emit := needEvents(), needEmit()
	return []testCase{
		{name: "Replay/a cursor resumes without loss or repetition", needs: []need{events, emit}, check: replayResumes},
		{name: "Replay/a cursor holds on another connection", needs: []need{events, emit}, check: replayReconnects},
		{name: "Replay/a cursor survives the peer's death", needs: []need{events, emit, needKill()}, check: replaySurvives},
		{name: "Replay/the starting cursor is before the first event", needs: []need{events, emit}, check: replayStart},
		{name: "Replay/a cursor that nobody gave out is a gap at most", needs: []need{events, emit}, check: replayUnknown},
		{name: "Replay/payloads are not shared", needs: []need{events, emit}, check: replayOwnership},
	}
}

// replays reports whether the events under test can be taken up at a cursor; if
// not, the property holds without further ado.
func (s *session) replays(c provider.Conn) bool {
	e, _ := s.manifest(c).Event(s.eventName(c))
	return e.Replay == provider.ReplayCursor
}

func replayResumes(ctx context.Context, s *session) {
	c := s.connect(ctx)
	if !s.replays(c) {
		return
	}
	sub := s.listen(ctx, c, "")
	s.emit(burst)
	all := s.take(ctx, sub, burst)
	for i, e := range all[:burst-1] {
		if e.Cursor == "" {
			s.Fatalf("event %s has no cursor", e.ID)
		}
		rest := s.take(ctx, s.listen(ctx, c, e.Cursor), burst-i-1)
		s.wantIDs("after the cursor of "+string(e.ID), rest, all[i+1:])
	}
	last := s.listen(ctx, c, all[burst-1].Cursor)
	s.emit(1)
	if got := s.take(ctx, last, 1)[0]; got.ID == all[burst-1].ID {
		s.Errorf("the event %s at the cursor was delivered again", got.ID)
	}
}

func replayReconnects(ctx context.Context, s *session) {
	first := s.connect(ctx)
	if !s.replays(first) {
		return
	}
	sub := s.listen(ctx, first, "")
	s.emit(1)
	seen := s.take(ctx, sub, 1)
	all := s.listen(ctx, first, seen[0].Cursor)
	s.emit(burst)
	want := s.take(ctx, all, burst)
	s.release(ctx, first)
	second := s.connect(ctx)
	s.wantIDs("on another connection", s.take(ctx, s.listen(ctx, second, seen[0].Cursor), burst), want)
}

func replaySurvives(ctx context.Context, s *session) {
	c := s.connect(ctx)
	if !s.replays(c) {
		return
	}
	sub := s.listen(ctx, c, "")
	s.emit(burst)
	all := s.take(ctx, sub, burst)
	s.cfg.Kill(s.t, s.p)
	s.await("Done after the peer died", c.Done())
	again := s.listen(ctx, s.connect(ctx), all[0].Cursor)
	s.wantIDs("after the peer's death", s.take(ctx, again, burst-1), all[1:])
}

func replayStart(ctx context.Context, s *session) {
	c := s.connect(ctx)
	if !s.replays(c) {
		return
	}
	sub := s.listen(ctx, c, "")
	start := sub.Cursor()
	if start == "" {
		s.Fatalf("a subscription to events with cursors has none")
	}
	s.emit(2)
	want := s.take(ctx, sub, 2)
	s.wantIDs("after the starting cursor", s.take(ctx, s.listen(ctx, c, start), 2), want)
}

// replayUnknown has a cursor refused in the one way that ends asking for it, if it
// is refused; a provider may take what it cannot tell from its own.
func replayUnknown(ctx context.Context, s *session) {
	c := s.connect(ctx)
	if !s.replays(c) {
		return
	}
	after := &provider.ListenRequest{Event: s.eventName(c), After: "providertest: no such cursor"}
	sub, err := ability[provider.Listener](s, c).Listen(ctx, after)
	switch {
	case s.note(err) == nil:
		s.promptly("Close of a subscription nobody read", func() { s.note(sub.Close(ctx)) })
	case !errors.Is(err, fault.Gap):
		s.Errorf("unknown cursor: got %v, want UnknownCursor", err)
	}
	fresh := s.listen(ctx, c, "")
	s.emit(1)
	s.take(ctx, fresh, 1)
}

func replayOwnership(ctx context.Context, s *session) {
	c := s.connect(ctx)
	first, second := s.listen(ctx, c, ""), s.listen(ctx, c, "")
	s.emit(1)
	e := s.take(ctx, first, 1)[0]
	scribble(e.Payload)
	s.take(ctx, second, 1)
	if s.replays(c) {
		s.take(ctx, s.listen(ctx, c, second.Cursor()), 1)
	}
}
