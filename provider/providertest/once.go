package providertest

import (
	"context"
	"sync"
)

func onceCases() []testCase {
	return []testCase{
		{name: "Once/a repeated key returns the first outcome", needs: []need{needOnce()}, check: onceRepeated},
		{name: "Once/a repeated key acts once", needs: []need{needOnce(), needActed()}, check: onceActs},
	}
}

func onceRepeated(ctx context.Context, s *session) {
	c := s.connect(ctx)
	req := s.request(s.cfg.Once)
	first, err := s.call(ctx, c, req)
	if err != nil {
		s.Fatalf("%s: %v", req.Op, err)
	}
	want := encoded(first.Value)
	spoil(first)
	again, err := s.call(ctx, c, req)
	if err != nil {
		s.Fatalf("%s with the same key: %v", req.Op, err)
	}
	if got := encoded(again.Value); got != want {
		s.Errorf("%s with the same key: got %s, want %s as before", req.Op, got, want)
	}
}

func onceActs(ctx context.Context, s *session) {
	c := s.connect(ctx)
	req := s.request(s.cfg.Once)
	for range 2 {
		var all sync.WaitGroup
		for range 4 {
			own := *req
			done := s.async(func() { s.call(ctx, c, &own) })
			all.Go(func() { <-done })
		}
		all.Wait()
	}
	if n := s.acted(req.Op); n != 1 {
		s.Errorf("the peer acted %d times upon one key, want 1", n)
	}
	s.call(ctx, c, s.request(s.cfg.Once))
	if n := s.acted(req.Op); n != 2 {
		s.Errorf("the peer acted %d times upon two keys, want 2", n)
	}
}
