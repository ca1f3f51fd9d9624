package providertest

import (
	"bytes"
	"context"
	"maps"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

func callCases() []testCase {
	return []testCase{
		{name: "Call/succeeds", check: func(ctx context.Context, s *session) { s.works(ctx, s.connect(ctx)) }},
		{name: "Call/concurrently", check: callConcurrently},
		{name: "Call/an unknown operation costs only that call", check: callUnknown},
		{name: "Call/a refusal is the peer's and costs only that call", needs: []need{needRefuse()}, check: callRefused},
		{name: "Call/a broken reply is no success and not NotSent", needs: []need{needBroken()}, check: callBroken},
		{name: "Call/NotSent only if the peer did not act", needs: []need{needActed()}, check: callActed},
	}
}

func callConcurrently(ctx context.Context, s *session) {
	c := s.connect(ctx)
	var all sync.WaitGroup
	for range 8 {
		done := s.async(func() {
			for range 4 {
				if _, err := s.call(ctx, c, s.request(s.cfg.Echo)); err != nil {
					s.Errorf("%s beside others: %v", s.cfg.Echo.Op, err)
				}
				c.Manifest()
				c.Identity()
				c.Err()
			}
		})
		all.Go(func() { <-done })
	}
	all.Wait()
}

func callUnknown(ctx context.Context, s *session) {
	c := s.connect(ctx)
	_, err := s.call(ctx, c, s.request(Call{Op: "providertest.no_such_operation"}))
	if w := word(err); w != fault.NotSent && w != fault.OpFailed {
		s.Errorf("unknown operation: got %v, want NotSent or Refused: nothing can have been done", err)
	}
	s.works(ctx, c)
}

func callRefused(ctx context.Context, s *session) {
	c := s.connect(ctx)
	_, err := s.call(ctx, c, s.request(s.cfg.Refuse))
	if w := word(err); w != fault.OpFailed && w != fault.Guarded {
		s.Errorf("%s: got %v, want Refused or Guarded", s.cfg.Refuse.Op, err)
	}
	s.works(ctx, c)
}

func callBroken(ctx context.Context, s *session) {
	for _, call := range s.cfg.Broken {
		c := s.connect(ctx)
		s.promptly(call.Op+" with a broken reply", func() {
			_, err := s.call(ctx, c, s.request(call))
			if w := word(err); w == "" || w == fault.NotSent {
				s.Errorf("%s: got %v, want an error that does not claim the peer did nothing", call.Op, err)
			}
		})
		select {
		case <-c.Done():
		default:
			s.works(ctx, c)
		}
	}
}

// callActed sends what may fail, and compares what the provider says of it with
// what the peer saw.
func callActed(ctx context.Context, s *session) {
	c := s.connect(ctx)
	for _, call := range append([]Call{s.cfg.Echo, s.cfg.Refuse}, s.cfg.Broken...) {
		if call.Op == "" {
			continue
		}
		before := s.acted(call.Op)
		_, err := s.call(ctx, c, s.request(call))
		if s.acted(call.Op) > before && word(err) == fault.NotSent {
			s.Errorf("%s: the peer acted, but the provider says NotSent: %v", call.Op, err)
		}
		if s.acted(call.Op) == before && err == nil {
			s.Errorf("%s: succeeded, but the peer did not act", call.Op)
		}
	}
}

func ownershipCases() []testCase {
	return []testCase{
		{name: "Ownership/arguments are not changed", check: argsUnchanged},
		{name: "Ownership/arguments arrive byte for byte", needs: []need{needActed()}, check: argsExact},
		{name: "Ownership/arguments are not kept", check: argsNotKept},
		{name: "Ownership/results are not shared", check: resultNotShared},
	}
}

func argsUnchanged(ctx context.Context, s *session) {
	c := s.connect(ctx)
	req := s.request(s.cfg.Echo)
	req.Trace = map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	args, trace, key := bytes.Clone(req.Args), maps.Clone(req.Trace), req.Key
	if _, err := s.call(ctx, c, req); err != nil {
		s.Fatalf("%s: %v", req.Op, err)
	}
	if !bytes.Equal(req.Args, args) || !maps.Equal(req.Trace, trace) || req.Op != s.cfg.Echo.Op || req.Key != key {
		s.Errorf("Call changed the request: %+v", req)
	}
}

func argsExact(ctx context.Context, s *session) {
	c := s.connect(ctx)
	req := s.request(s.cfg.Echo)
	sent := bytes.Clone(req.Args)
	if _, err := s.call(ctx, c, req); err != nil {
		s.Fatalf("%s: %v", req.Op, err)
	}
	scribble(req.Args)
	calls := s.cfg.Acted(s.t, s.p)
	if len(calls) == 0 {
		s.Fatalf("the peer saw no call")
	}
	if got := calls[len(calls)-1].Args; !bytes.Equal(got, sent) {
		s.Errorf("the peer got %s, want %s", fault.Quote(string(got)), sent)
	}
}

// scribble writes what no JSON begins with, so that memory that is used again
// by someone else shows up.
func scribble(b []byte) {
	for i := range b {
		b[i] = '#'
	}
}

func argsNotKept(ctx context.Context, s *session) {
	c := s.connect(ctx)
	for range 3 {
		req := s.request(s.cfg.Echo)
		res, err := s.call(ctx, c, req)
		if err != nil {
			s.Fatalf("%s: %v", req.Op, err)
		}
		before := encoded(res)
		scribble(req.Args)
		if after := encoded(res); after != before {
			s.Errorf("the result changed with the arguments:\n%s\n%s", before, after)
		}
	}
}

func resultNotShared(ctx context.Context, s *session) {
	c := s.connect(ctx)
	for range 3 {
		res := s.works(ctx, c)
		spoil(res)
	}
	s.manifest(c)
}

// spoil overwrites all of a result that could be shared.
func spoil(res *provider.CallResult) {
	scribble(res.Value)
	for i := range res.Content {
		scribble(res.Content[i].Data)
		res.Content[i] = provider.Content{Type: "spoiled by providertest"}
	}
	if res.Identity != nil {
		*res.Identity = provider.Identity{}
	}
}
