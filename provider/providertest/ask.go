package providertest

import (
	"context"

	"github.com/bridle-dev/bridle/provider"
)

func askCases() []testCase {
	return []testCase{
		{name: "Ask/a question reaches the host", needs: []need{needAsk()}, check: askReaches},
		{name: "Ask/without a host it is declined at once", needs: []need{needAsk()}, check: askDeclined},
		{name: "Ask/a question ends with its call", needs: []need{needAsk()}, check: askEnds},
	}
}

// connectAsking connects as a host that answers.
func (s *session) connectAsking(ctx context.Context, ask func(context.Context, *provider.Question) (*provider.Answer, error)) provider.Conn {
	s.Helper()
	opts := s.options()
	opts.Ask = ask
	return s.connectWith(ctx, opts)
}

func askReaches(ctx context.Context, s *session) {
	asked := make(chan provider.Question, 1)
	c := s.connectAsking(ctx, func(_ context.Context, q *provider.Question) (*provider.Answer, error) {
		select {
		case asked <- *q:
		default:
		}
		return &provider.Answer{Action: provider.Dismiss}, nil
	})
	s.promptly("a call that asks", func() {
		if _, err := s.call(ctx, c, s.request(s.cfg.Ask)); err != nil {
			s.Errorf("%s: %v; it is given as one that succeeds whatever the answer", s.cfg.Ask.Op, err)
		}
	})
	select {
	case q := <-asked:
		if q.Op != "" && q.Op != s.cfg.Ask.Op {
			s.Errorf("the question of %s is said to be about %s", s.cfg.Ask.Op, q.Op)
		}
		if q.Schema != nil && q.URL != "" {
			s.Errorf("a question is to be answered with a form and at a URL at once")
		}
	default:
		s.Errorf("ConnectOptions.Ask was not called although %s asks", s.cfg.Ask.Op)
	}
}

func askDeclined(ctx context.Context, s *session) {
	c := s.connect(ctx)
	s.promptly("a call that asks where nobody is", func() {
		if _, err := s.call(ctx, c, s.request(s.cfg.Ask)); err != nil {
			s.Errorf("%s: %v; it is given as one that succeeds whatever the answer", s.cfg.Ask.Op, err)
		}
	})
}

func askEnds(ctx context.Context, s *session) {
	asked, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	c := s.connectAsking(ctx, func(ctx context.Context, _ *provider.Question) (*provider.Answer, error) {
		asked <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	})
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan error, 1)
	s.async(func() {
		_, err := s.call(during, c, s.request(s.cfg.Ask))
		result <- err
	})
	s.await("a question", asked)
	cancel()
	s.wantCut("Call cancelled while it asks", s.soon("the cancelled call", result))
	s.await("the end of the question's context", ended)
	s.works(ctx, c)
}
