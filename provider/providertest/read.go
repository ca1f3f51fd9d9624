package providertest

import (
	"context"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

func readCases() []testCase {
	return []testCase{
		{name: "Read/succeeds and may be repeated", needs: []need{needReads()}, check: readSucceeds},
		{name: "Read/an unknown name costs only that read", needs: []need{needReads()}, check: readUnknown},
		{name: "Read/a context that has ended is an error", needs: []need{needReads()}, check: readCancelled},
	}
}

func (s *session) readName(c provider.Conn) string {
	if s.cfg.Read.Op != "" {
		return s.cfg.Read.Op
	}
	if m := s.manifest(c); len(m.Reads) > 0 {
		return m.Reads[0].Name
	}
	s.Fatalf("reads are declared, but the manifest has none")
	return ""
}

func readSucceeds(ctx context.Context, s *session) {
	c := s.connect(ctx)
	r := ability[provider.Reader](s, c)
	for range 3 {
		req := &provider.ReadRequest{Name: s.readName(c), Args: arguments(s.cfg.Read), Execution: "providertest"}
		res, err := r.Read(ctx, req)
		if s.note(err) != nil || res == nil {
			s.Fatalf("Read: got %v, %v", res, err)
		}
		s.checkValue(req.Name, res.Value, res.Content)
		scribble(req.Args)
		s.checkValue(req.Name, res.Value, res.Content)
		spoil(&provider.CallResult{Value: res.Value, Content: res.Content, Identity: res.Identity})
	}
}

func readUnknown(ctx context.Context, s *session) {
	c := s.connect(ctx)
	r := ability[provider.Reader](s, c)
	_, err := r.Read(ctx, &provider.ReadRequest{Name: "providertest.no_such_read"})
	s.note(err)
	if w := word(err); w != fault.NotSent && w != fault.OpFailed {
		s.Errorf("unknown read: got %v, want NotSent or Refused", err)
	}
	s.works(ctx, c)
}

func readCancelled(ctx context.Context, s *session) {
	c := s.connect(ctx)
	r := ability[provider.Reader](s, c)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	s.promptly("Read with a context that has ended", func() {
		if _, err := r.Read(ended, &provider.ReadRequest{Name: s.readName(c), Args: arguments(s.cfg.Read)}); s.note(err) == nil {
			s.Errorf("Read succeeded although its context had ended")
		}
	})
}
