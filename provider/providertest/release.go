package providertest

import (
	"context"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

func releaseCases() []testCase {
	return []testCase{
		{name: "Release/closes Done and leaves Err nil", check: releaseDone},
		{name: "Release/twice is no error", check: releaseTwice},
		{name: "Release/concurrently", check: releaseConcurrently},
		{name: "Release/nothing is sent afterwards", check: releaseAfterwards},
		{name: "Release/cuts calls in flight", needs: []need{needSlow()}, check: releaseCuts},
		{name: "Release/with a context that has ended still releases", check: releaseCancelled},
		{name: "Release/is bounded when the peer is silent", needs: []need{needSilence()}, check: releaseSilent},
	}
}

func (s *session) release(ctx context.Context, c provider.Conn) {
	s.Helper()
	s.promptly("Release", func() {
		if err := s.note(c.Release(ctx)); err != nil {
			s.Errorf("Release: %v", err)
		}
	})
}

func releaseDone(ctx context.Context, s *session) {
	c := s.connect(ctx)
	select {
	case <-c.Done():
		s.Errorf("Done is closed on a new connection")
	default:
	}
	if err := s.note(c.Err()); err != nil {
		s.Errorf("Err is %v on a new connection", err)
	}
	s.release(ctx, c)
	s.await("Done after Release", c.Done())
	if err := s.note(c.Err()); err != nil {
		s.Errorf("Err is %v after Release, want nil", err)
	}
}

func releaseTwice(ctx context.Context, s *session) {
	c := s.connect(ctx)
	s.release(ctx, c)
	s.release(ctx, c)
}

func releaseConcurrently(ctx context.Context, s *session) {
	c := s.connect(ctx)
	var all sync.WaitGroup
	for range 8 {
		done := s.async(func() { s.release(ctx, c) })
		all.Go(func() { <-done })
	}
	all.Wait()
	s.await("Done after Release", c.Done())
}

func releaseAfterwards(ctx context.Context, s *session) {
	c := s.connect(ctx)
	s.release(ctx, c)
	s.unusable(ctx, c)
}

// unusable checks that nothing can be sent over a connection that has ended.
func (s *session) unusable(ctx context.Context, c provider.Conn) {
	s.Helper()
	s.promptly("use of a connection that has ended", func() {
		_, err := s.call(ctx, c, s.request(s.cfg.Echo))
		s.wantNotSent("Call on a connection that has ended", err)
		if r, ok := provider.Ability[provider.Reader](c); ok && s.cfg.Abilities.Reads {
			_, err := r.Read(ctx, &provider.ReadRequest{Name: s.readName(c), Args: arguments(s.cfg.Read)})
			s.wantNotSent("Read on a connection that has ended", err)
		}
		if l, ok := provider.Ability[provider.Listener](c); ok && s.cfg.Abilities.Events {
			_, err := l.Listen(ctx, &provider.ListenRequest{Event: s.eventName(c)})
			s.wantNotSent("Listen on a connection that has ended", err)
		}
		if t, ok := provider.Ability[provider.Tasker](c); ok && s.cfg.Abilities.Tasks {
			_, err := t.AwaitTask(ctx, "providertest")
			s.wantNotSent("AwaitTask on a connection that has ended", err)
		}
		if r, ok := provider.Ability[provider.Resetter](c); ok && s.cfg.Abilities.Reset {
			s.wantNotSent("Reset on a connection that has ended", r.Reset(ctx))
		}
	})
}

func releaseCuts(ctx context.Context, s *session) {
	c := s.connect(ctx)
	result := s.slowly(ctx, c)
	s.release(ctx, c)
	s.wantCut("Call cut by Release", s.soon("the call that Release cut", result))
}

func releaseCancelled(ctx context.Context, s *session) {
	c := s.connect(ctx)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	s.promptly("Release with a context that has ended", func() { s.note(c.Release(ended)) })
	s.await("Done after Release", c.Done())
	s.unusable(ctx, c)
}

func releaseSilent(ctx context.Context, s *session) {
	c := s.connect(ctx)
	s.cfg.Silence(s.t, s.p)
	result := make(chan error, 1)
	s.async(func() {
		_, err := s.call(ctx, c, s.request(s.cfg.Echo))
		result <- err
	})
	bound, cancel := context.WithTimeout(ctx, s.cfg.Patience/2)
	defer cancel()
	s.promptly("Release before a silent peer", func() { s.note(c.Release(bound)) })
	if err := s.soon("the call that Release cut", result); err == nil {
		s.Errorf("%s succeeded before a silent peer", s.cfg.Echo.Op)
	}
	s.await("Done after Release", c.Done())
}

func deathCases() []testCase {
	return []testCase{
		{name: "Death/closes Done with a reason", needs: []need{needKill()}, check: deathDone},
		{name: "Death/cuts calls in flight", needs: []need{needKill(), needSlow()}, check: deathCuts},
		{name: "Death/Connect works again", needs: []need{needKill()}, check: deathAgain},
	}
}

func deathDone(ctx context.Context, s *session) {
	c := s.connect(ctx)
	s.cfg.Kill(s.t, s.p)
	s.await("Done after the peer died", c.Done())
	if s.note(c.Err()) == nil {
		s.Errorf("Err is nil after the peer died")
	}
	s.unusable(ctx, c)
	s.release(ctx, c)
	if c.Err() == nil {
		s.Errorf("Release made the reason go away")
	}
}

func deathCuts(ctx context.Context, s *session) {
	c := s.connect(ctx)
	result := s.slowly(ctx, c)
	s.cfg.Kill(s.t, s.p)
	err := s.soon("the call whose peer died", result)
	if w := word(err); w != fault.OutcomeUnknown {
		s.Errorf("Call whose peer died: got %v, want an unknown outcome", err)
	}
}

func deathAgain(ctx context.Context, s *session) {
	c := s.connect(ctx)
	s.cfg.Kill(s.t, s.p)
	s.await("Done after the peer died", c.Done())
	s.works(ctx, s.connect(ctx))
}
