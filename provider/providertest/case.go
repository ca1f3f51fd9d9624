package providertest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// limitFactor is how many times Patience a subtest may take.
const limitFactor = 6

// reporter is the part of *testing.T that properties use. The kit's own tests
// put a recorder in its place.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// testCase is one property.
type testCase struct {
	name  string
	needs []need
	check func(ctx context.Context, s *session)
}

// need is something in a Config that a property cannot do without.
type need struct {
	field string
	has   func(*Config) bool
}

func (c *testCase) missing(cfg *Config) string {
	for _, n := range c.needs {
		if !n.has(cfg) {
			return n.field
		}
	}
	return ""
}

// run checks the property against a new provider and reports to r; t is for the
// hooks of cfg.
func (c *testCase) run(t *testing.T, r reporter, cfg Config) {
	if cfg.Patience == 0 {
		cfg.Patience = 5 * time.Second
	}
	s := &session{reporter: r, t: t, cfg: &cfg, p: cfg.New(t)}
	// Goroutines inherit the label, so that exactly those of this subtest are
	// known, whatever else runs in the process.
	label := fmt.Sprintf("%s %p", c.name, s)
	limit := limitFactor * cfg.Patience
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.Do(ctx, pprof.Labels(labelKey, label), func(ctx context.Context) { s.check(ctx, c.check) })
	}()
	timer := time.NewTimer(limit + cfg.Patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		r.Errorf("still running after %v; all goroutines:\n%s", limit, stacks())
		return
	}
	if left := leaked(label, cfg.Patience); left != "" {
		r.Errorf("goroutines left after every connection was released:\n%s", left)
	}
}

// check runs one property and cleans up behind it, whatever way it ends.
func (s *session) check(ctx context.Context, check func(context.Context, *session)) {
	defer s.finish(ctx)
	defer s.contain()
	check(ctx, s)
}

// contain turns a panic into a failure.
func (s *session) contain() {
	if r := recover(); r != nil {
		s.Errorf("panic: %v\n%s", r, debug.Stack())
	}
}

const labelKey = "providertest"

// leaked waits until no goroutine has the label, and describes those that stay.
func leaked(label string, patience time.Duration) string {
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause *= 2 {
		left := labelled(label)
		if left == "" || time.Now().After(deadline) {
			return left
		}
		time.Sleep(min(pause, 50*time.Millisecond)) //allow:sleep the end of a goroutine tells nobody
	}
}

func labelled(label string) string {
	var buf bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&buf, 1); err != nil {
		return err.Error()
	}
	mark := fmt.Sprintf("%q:%q", labelKey, label)
	var left []string
	for _, block := range strings.Split(buf.String(), "\n\n") {
		if strings.Contains(block, mark) {
			left = append(left, block)
		}
	}
	return strings.Join(left, "\n\n")
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}
