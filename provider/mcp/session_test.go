package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/steps"
)

// expiring is a server of the earlier era that can refuse the sessions it has.
type expiring struct {
	*front

	mu       sync.Mutex
	refused  map[string]bool
	opened   int // initialize requests
	stale    int // of them with the id of a session
	executed int // calls that reached the server
}

func newExpiring(t *testing.T, refuse func(http.ResponseWriter)) *expiring {
	e := &expiring{front: serveHTTP(t, eras()["legacy"]), refused: map[string]bool{}}
	e.intercept(func(w http.ResponseWriter, r *http.Request) {
		m, _ := method(r)
		session := r.Header.Get("Mcp-Session-Id")
		e.mu.Lock()
		gone := e.refused[session]
		if m == "initialize" {
			e.opened++
			if session != "" {
				e.stale++
			}
		}
		if m == "tools/call" && !gone {
			e.executed++
		}
		e.mu.Unlock()
		if !gone {
			panic(errPass)
		}
		refuse(w)
	})
	return e
}

// expire refuses all sessions of now, on every method.
func (e *expiring) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for session := range e.server.Sessions() {
		e.refused[session.ID()] = true
	}
	e.opened, e.executed = 0, 0
}

// TestForgottenSessionIsOpenedAgainOnce: each way of forgetting a session costs
// what was in flight a typed failure, and exactly one new session.
func TestForgottenSessionIsOpenedAgainOnce(t *testing.T) { // B002, B004
	t.Parallel()
	tests := []struct {
		name   string
		refuse func(http.ResponseWriter)
		want   fault.Code // of a call that meets it
	}{
		{"404", func(w http.ResponseWriter) { http.Error(w, "session not found", 404) }, fault.NotSent},
		{"404 with JSON-RPC", func(w http.ResponseWriter) { rpcError(w, 404, -32001, "null") }, fault.NotSent},
		{"401 without challenge", func(w http.ResponseWriter) { w.WriteHeader(401) }, fault.NotSent},
		{"503", func(w http.ResponseWriter) { w.WriteHeader(503) }, fault.OutcomeUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newExpiring(t, tt.refuse)
			h, err := harness.New(harness.Config{Name: "sessions", Connections: connection.Set{"s": {Provider: mcp.HTTP(e.URL, nil)}}})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close(context.WithoutCancel(t.Context()))
			if err := h.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			call := func() error {
				_, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "s", Op: "echo"}, nil, nil)
				return err
			}
			if err := call(); err != nil {
				t.Fatal(err)
			}
			e.expire()
			failures := make(chan error, 8)
			for range cap(failures) {
				go func() { failures <- call() }()
			}
			met := 0
			for range cap(failures) {
				err := <-failures
				if err == nil {
					continue // it waited for the new session
				}
				met++
				if !errors.Is(err, tt.want) && !errors.Is(err, fault.NotSent) && !errors.Is(err, fault.OutcomeUnknown) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
			}
			waitFor(t, h, event.ConnectionUnavailable, "s")
			if err := call(); err != nil {
				t.Errorf("after the incident: %v", err)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.opened != 1 || e.stale != 0 {
				t.Errorf("got %d new sessions, %d of them with an old id, want one without", e.opened, e.stale)
			}
			if want := cap(failures) - met + 1; e.executed != want {
				t.Errorf("the server executed %d calls, want the %d that succeeded", e.executed, want)
			}
		})
	}
}

func TestRefusalWithLiveSessionCostsOneCall(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			f := serveHTTP(t, eras()["legacy"])
			c := connect(t, mcp.HTTP(f.URL, nil), &host{})
			f.intercept(onCall(func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(status) }))
			if _, err := c.Call(within(t), &provider.CallRequest{Op: "echo"}); err == nil {
				t.Error("the call succeeded")
			}
			f.intercept(func(http.ResponseWriter, *http.Request) { panic(errPass) })
			call(t, c, "echo", `{}`)
		})
	}
}
