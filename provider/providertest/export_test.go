package providertest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Properties are the names of all properties that cfg has what it takes for.
func Properties(cfg Config) []string {
	var out []string
	for _, c := range cases() {
		if c.missing(&cfg) == "" {
			out = append(out, c.name)
		}
	}
	return out
}

// Failures checks these properties and returns what each reported, by name; t
// does not fail.
func Failures(t *testing.T, cfg Config, properties ...string) map[string][]string {
	out := map[string][]string{}
	for _, c := range cases() {
		if !slices.Contains(properties, c.name) {
			continue
		}
		var r recorder
		c.run(t, &r, cfg)
		if found := r.found(); len(found) > 0 {
			out[c.name] = found
		}
	}
	return out
}

// recorder keeps failures instead of failing.
type recorder struct {
	mu       sync.Mutex
	failures []string // guarded by mu
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) found() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}
