package providertest

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

func cancelCases() []testCase {
	return []testCase{
		{name: "Cancel/a context that has ended sends nothing", check: cancelledBefore},
		{name: "Cancel/a call in flight returns and costs only itself", needs: []need{needSlow()}, check: cancelledDuring},
		{name: "Cancel/a deadline ends a call in flight", needs: []need{needSlow()}, check: deadlineDuring},
		{name: "Cancel/a call in flight holds up nothing cheap", needs: []need{needSlow()}, check: cheapDuring},
	}
}

func cancelledBefore(ctx context.Context, s *session) {
	c := s.connect(ctx)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	before := 0
	if s.cfg.Acted != nil {
		before = s.acted(s.cfg.Echo.Op)
	}
	s.promptly("Call with a context that has ended", func() {
		_, err := s.call(ended, c, s.request(s.cfg.Echo))
		if err == nil {
			s.Errorf("Call succeeded although its context had ended")
		}
		if s.cfg.Acted != nil && s.acted(s.cfg.Echo.Op) > before && word(err) == fault.NotSent {
			s.Errorf("the peer acted, but the provider says NotSent: %v", err)
		}
	})
	s.works(ctx, c)
}

func cancelledDuring(ctx context.Context, s *session) {
	c := s.connect(ctx)
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	result := s.slowly(during, c)
	cancel()
	s.wantCut("Call cancelled in flight", s.soon("the cancelled call", result))
	s.works(ctx, c)
}

func deadlineDuring(ctx context.Context, s *session) {
	c := s.connect(ctx)
	during, cancel := context.WithTimeout(ctx, min(max(s.cfg.Patience/10, 20*time.Millisecond), 500*time.Millisecond))
	defer cancel()
	result := make(chan error, 1)
	s.async(func() {
		_, err := s.call(during, c, s.request(s.cfg.Slow))
		result <- err
	})
	err := s.soon("the call with a deadline", result)
	if err == nil {
		s.Errorf("%s succeeded; it is given as one that does not end by itself", s.cfg.Slow.Op)
	}
	if s.cfg.Acted != nil && s.acted(s.cfg.Slow.Op) > 0 {
		s.wantCut("Call whose deadline passed", err)
	}
	s.works(ctx, c)
}

func cheapDuring(ctx context.Context, s *session) {
	c := s.connect(ctx)
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	result := s.slowly(during, c)
	s.promptly("Manifest, Identity, Done and Err beside a call", func() {
		c.Manifest()
		c.Identity()
		c.Done()
		c.Err()
	})
	cancel()
	s.soon("the cancelled call", result)
}
