package providertest

import (
	"context"

	"github.com/bridle-dev/bridle/provider"
)

func connectCases() []testCase {
	return []testCase{
		{name: "Connect/ids are distinct", check: distinctIDs},
		{name: "Connect/fails when its context has ended", check: connectCancelled},
		{name: "Connect/the connection outlives the context", check: connectOutlives},
		{name: "Connect/twice at a time", check: connectTwice},
		{name: "Connect/again after release", check: connectAgain},
		{name: "Provider/its options pass Check", check: checkPasses},
		{name: "Provider/equals itself only", check: equalsItself},
	}
}

func distinctIDs(ctx context.Context, s *session) {
	conns, err := s.p.Connect(ctx, s.options())
	s.keep(conns...)
	if s.note(err) != nil {
		s.Fatalf("Connect: %v", err)
	}
	seen := map[string]bool{}
	for _, c := range conns {
		if seen[c.ID()] {
			s.Errorf("two connections have the id %q", c.ID())
		}
		seen[c.ID()] = true
		if c.ID() == "" && len(conns) > 1 {
			s.Errorf("one of %d connections has an empty id", len(conns))
		}
	}
}

func connectCancelled(ctx context.Context, s *session) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	s.promptly("Connect with a context that has ended", func() {
		conns, err := s.p.Connect(ctx, s.options())
		s.keep(conns...)
		if s.note(err) == nil {
			s.Errorf("Connect succeeded although its context had ended")
		}
		if err != nil && len(conns) > 0 {
			s.Errorf("Connect returned connections together with the error %v", err)
		}
	})
}

func connectOutlives(ctx context.Context, s *session) {
	bound, cancel := context.WithCancel(ctx)
	c := s.connect(bound)
	cancel()
	s.works(ctx, c)
	select {
	case <-c.Done():
		s.Errorf("the connection ended with the context that bounded Connect: %v", c.Err())
	default:
	}
}

func connectTwice(ctx context.Context, s *session) {
	first, second := s.connect(ctx), s.connect(ctx)
	s.works(ctx, first)
	s.works(ctx, second)
	s.note(first.Release(ctx))
	s.works(ctx, second)
}

func connectAgain(ctx context.Context, s *session) {
	for range 3 {
		c := s.connect(ctx)
		s.works(ctx, c)
		if err := s.note(c.Release(ctx)); err != nil {
			s.Errorf("Release: %v", err)
		}
	}
}

func checkPasses(_ context.Context, s *session) {
	if checker, ok := s.p.(provider.Checker); ok {
		if err := s.note(checker.Check()); err != nil {
			s.Errorf("Check: %v", err)
		}
	}
}

func equalsItself(_ context.Context, s *session) {
	e, ok := s.p.(provider.Equaler)
	if !ok {
		return
	}
	if !e.Equal(s.p) {
		s.Errorf("the provider is not equal to itself")
	}
	if e.Equal(stranger{}) {
		s.Errorf("the provider is equal to a provider of another kind")
	}
}

// stranger is a provider of another kind.
type stranger struct{}

func (stranger) Connect(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
	return nil, nil
}
