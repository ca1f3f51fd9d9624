package providertest

import (
	"context"
	"slices"
)

func secretCases() []testCase {
	return []testCase{
		{name: "Secret/is registered before it is used", needs: []need{needSecret()}, check: secretRegistered},
		{name: "Secret/appears in nothing that can be seen", needs: []need{needSecret()}, check: secretHidden},
	}
}

func secretRegistered(ctx context.Context, s *session) {
	s.connect(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.redacted, s.cfg.Secret) {
		s.Errorf("Connect did not register the planted secret with ConnectOptions.Redact")
	}
}

// secretHidden makes as many errors as it can; the search is part of every
// property's end.
func secretHidden(ctx context.Context, s *session) {
	c := s.connect(ctx)
	s.works(ctx, c)
	s.call(ctx, c, s.request(Call{Op: "providertest.no_such_operation"}))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	s.call(ended, c, s.request(s.cfg.Echo))
	if s.cfg.Refuse.Op != "" {
		s.call(ctx, c, s.request(s.cfg.Refuse))
	}
	if conns, err := s.p.Connect(ended, s.options()); s.note(err) == nil {
		s.keep(conns...)
	}
	if s.cfg.Kill != nil {
		s.cfg.Kill(s.t, s.p)
		s.await("Done after the peer died", c.Done())
		s.note(c.Err())
	} else {
		s.release(ctx, c)
	}
	s.call(ctx, c, s.request(s.cfg.Echo))
}
