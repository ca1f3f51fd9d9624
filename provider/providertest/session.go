package providertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// session is one property's view of one provider. It keeps what must be free
// of secrets, and releases what was connected.
type session struct {
	reporter
	t   *testing.T
	cfg *Config
	p   provider.Provider

	keys atomic.Int64

	mu       sync.Mutex
	conns    []provider.Conn // guarded by mu; to be released at the end
	errs     []error         // guarded by mu; all that were seen
	redacted []string        // guarded by mu
	log      bytes.Buffer    // guarded by mu
}

// Write makes the session the sink of the provider's log.
func (s *session) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *session) options() *provider.ConnectOptions {
	o := &provider.ConnectOptions{
		Name:   "providertest",
		Logger: slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Redact: func(secret string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.redacted = append(s.redacted, secret)
		},
	}
	return o.Normal()
}

// note keeps an error for the search for secrets, and returns it.
func (s *session) note(err error) error {
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, err)
	}
	return err
}

// connect returns the first connection of the provider, or ends the subtest.
func (s *session) connect(ctx context.Context) provider.Conn {
	s.Helper()
	return s.connectWith(ctx, s.options())
}

func (s *session) connectWith(ctx context.Context, opts *provider.ConnectOptions) provider.Conn {
	s.Helper()
	conns, err := s.p.Connect(ctx, opts)
	s.keep(conns...)
	if s.note(err) != nil {
		s.Fatalf("Connect: %v", err)
	}
	if len(conns) == 0 || conns[0] == nil {
		s.Fatalf("Connect returned no connection and no error")
	}
	return conns[0]
}

func (s *session) keep(conns ...provider.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range conns {
		if c != nil {
			s.conns = append(s.conns, c)
		}
	}
}

// request makes a request of a key that was not used before.
func (s *session) request(call Call) *provider.CallRequest {
	return &provider.CallRequest{
		Op: call.Op, Args: arguments(call), Execution: "providertest",
		Key: provider.Key(fmt.Sprintf("providertest:%d", s.keys.Add(1))),
	}
}

func arguments(call Call) json.RawMessage {
	if call.Args == nil {
		return json.RawMessage(`{}`)
	}
	return bytes.Clone(call.Args)
}

// call sends req and checks what holds for every call.
func (s *session) call(ctx context.Context, c provider.Conn, req *provider.CallRequest) (*provider.CallResult, error) {
	s.Helper()
	var telling, returned atomic.Bool
	req.Progress = func(provider.Progress) {
		if returned.Load() {
			s.Errorf("%s: progress was reported after Call returned", req.Op)
		}
		if telling.Swap(true) {
			s.Errorf("%s: two reports of progress at a time", req.Op)
		}
		telling.Store(false)
	}
	res, err := c.Call(ctx, req)
	returned.Store(true)
	if s.note(err) != nil {
		return nil, err
	}
	if res == nil {
		s.Fatalf("%s: Call returned neither a result nor an error", req.Op)
	}
	s.checkValue(req.Op, res.Value, res.Content)
	return res, nil
}

// checkValue checks a successful result of a call or read.
func (s *session) checkValue(name string, value json.RawMessage, content []provider.Content) {
	s.Helper()
	if len(value) > 0 && !json.Valid(value) {
		s.Errorf("%s: value is not JSON: %s", name, fault.Quote(string(value)))
	}
	for _, block := range content {
		switch block.Type {
		case provider.ContentText, provider.ContentImage, provider.ContentAudio,
			provider.ContentLink, provider.ContentResource:
		default:
			s.Errorf("%s: content of unknown type %q", name, block.Type)
		}
	}
}

// works checks that c still does what it is for.
func (s *session) works(ctx context.Context, c provider.Conn) *provider.CallResult {
	s.Helper()
	res, err := s.call(ctx, c, s.request(s.cfg.Echo))
	if err != nil {
		s.Fatalf("%s failed on a connection that should work: %v", s.cfg.Echo.Op, err)
	}
	return res
}

// promptly runs f and ends the subtest if it takes longer than Patience.
func (s *session) promptly(what string, f func()) {
	s.Helper()
	s.await(what, s.async(f))
}

// async runs f beside the property; the channel is closed when it ended.
func (s *session) async(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.contain()
		f()
	}()
	return done
}

// await waits for what must happen soon.
func (s *session) await(what string, done <-chan struct{}) {
	s.Helper()
	timer := time.NewTimer(s.cfg.Patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.Fatalf("%s took longer than %v; all goroutines:\n%s", what, s.cfg.Patience, stacks())
	}
}

// until waits for a condition at the peer, of which nobody tells.
func (s *session) until(what string, ok func() bool) {
	s.Helper()
	deadline := time.Now().Add(s.cfg.Patience)
	for !ok() {
		if time.Now().After(deadline) {
			s.Fatalf("waited longer than %v for %s", s.cfg.Patience, what)
		}
		time.Sleep(time.Millisecond) //allow:sleep a real peer is another process, which only polling sees
	}
}

// acted counts the calls of op that the peer acted upon.
func (s *session) acted(op string) int {
	n := 0
	for _, call := range s.cfg.Acted(s.t, s.p) {
		if call.Op == op {
			n++
		}
	}
	return n
}

// slowly begins Slow and returns once the peer is at it. The channel yields the
// call's error.
func (s *session) slowly(ctx context.Context, c provider.Conn) <-chan error {
	result := make(chan error, 1)
	s.async(func() {
		_, err := s.call(ctx, c, s.request(s.cfg.Slow))
		result <- err
	})
	if s.cfg.Acted == nil {
		time.Sleep(s.cfg.Patience / 20) //allow:sleep without Acted, nobody can tell when it began
		return result
	}
	s.until("the peer to begin "+s.cfg.Slow.Op, func() bool { return s.acted(s.cfg.Slow.Op) > 0 })
	return result
}

// soon takes a call's error that must arrive within Patience.
func (s *session) soon(what string, result <-chan error) error {
	s.Helper()
	var err error
	s.promptly(what, func() { err = <-result })
	return err
}

// word is what a provider's error says about the peer: NotSent, OpFailed,
// Guarded, or unknown for everything else; "" is no error.
func word(err error) fault.Code {
	switch code := fault.CodeOf(err); {
	case err == nil:
		return ""
	case code == fault.NotSent, code == fault.OpFailed, code == fault.Guarded:
		return code
	}
	return fault.OutcomeUnknown
}

func (s *session) wantNotSent(what string, err error) {
	s.Helper()
	if s.note(err); word(err) != fault.NotSent {
		s.Errorf("%s: got %v, want a NotSent error", what, err)
	}
}

// wantCut checks the error of a call that was under way when it was cut off.
func (s *session) wantCut(what string, err error) {
	s.Helper()
	if word(err) != fault.OutcomeUnknown {
		s.Errorf("%s: got %v, want an error that leaves the outcome unknown: the peer had begun", what, err)
	}
}

// finish releases everything, and looks for the secret in what was seen.
func (s *session) finish(ctx context.Context) {
	defer s.contain()
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Patience)
	defer cancel()
	for _, c := range conns {
		s.note(c.Release(ctx))
		s.note(c.Err())
		s.seek("a manifest", encoded(c.Manifest()))
		s.seek("an identity", encoded(c.Identity()))
	}
	s.mu.Lock()
	errs, log := s.errs, s.log.String()
	s.mu.Unlock()
	for _, err := range errs {
		for e := err; e != nil; e = errors.Unwrap(e) {
			s.seek("an error", e.Error()+encoded(e))
		}
	}
	s.seek("the log", log)
}

func (s *session) seek(where, text string) {
	if s.cfg.Secret != "" && strings.Contains(text, s.cfg.Secret) {
		s.Errorf("the planted secret is in %s", where)
	}
}

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}
