package harness

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// healthLimit is how long the store has to answer: less than supervisors of
// processes usually wait.
const healthLimit = 2 * time.Second

// condition is the answer of Health and Ready.
type condition struct {
	OK      bool   `json:"ok"`
	Reasons []lack `json:"reasons,omitempty"`
}

// lack is why something is not as it should be. It has no text of others, since
// those who may ask whether a program is well need not see what it works with.
type lack struct {
	What       string     `json:"what"` // store, start, drain, connection, trigger
	Name       string     `json:"name,omitempty"`
	Connection string     `json:"connection,omitempty"`
	Code       fault.Code `json:"code,omitempty"`
}

// Health answers whether the process works: 200 if its store answers within two
// seconds, else 503. It is for whoever starts processes anew, and says nothing of
// connections, which come back by themselves.
//
// The body is {"ok":true}, or {"ok":false,"reasons":[{"what":"store","code":"…"}]}.
// Only GET and HEAD are answered. It works before Start and, until the store is
// closed, after Close. It needs no secret and tells none.
func (h *AgentHarness) Health() http.Handler {
	return conditionHandler(func(ctx context.Context) []lack {
		ctx, cancel := context.WithTimeout(ctx, healthLimit)
		defer cancel()
		if err := h.store.View(ctx, func(store.Tx) error { return nil }); err != nil {
			return []lack{{What: "store", Code: fault.CodeOf(err)}}
		}
		return nil
	})
}

// Ready answers whether the harness takes work: 200 if it was started and does
// not drain, the connections that are Required are ready, and all triggers listen,
// else 503. It is for whoever sends work to one of several processes. A drain
// begins with 503, before anything is refused.
//
// The body is as that of Health; What is "start", "drain", "connection" or
// "trigger", with the name of the one and the code of why. Status and Admin tell
// more.
func (h *AgentHarness) Ready() http.Handler {
	return conditionHandler(func(context.Context) []lack { return h.unready() })
}

// unready is why the harness takes no work.
func (h *AgentHarness) unready() []lack {
	h.mu.Lock()
	now, leaving := h.phase, h.leaving
	h.mu.Unlock()
	switch {
	case now == idle:
		return []lack{{What: "start"}}
	case now != started || leaving:
		return []lack{{What: "drain"}}
	}
	var all []lack
	for _, name := range h.scope.names() {
		sup := h.scope.own[name]
		if !sup.entry.Required {
			continue
		}
		if state, err := sup.now(); state != connection.Ready {
			all = append(all, lack{What: "connection", Name: string(name), Code: fault.CodeOf(err)})
		}
	}
	for _, t := range h.inbound.inbox.Status() {
		if !t.Listening {
			all = append(all, lack{What: "trigger", Name: string(t.Trigger), Connection: string(t.Connection), Code: fault.CodeOf(t.Err)})
		}
	}
	return all
}

// now is the state, and why it is so.
func (s *supervisor) now() (connection.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.err
}

// conditionHandler answers with what is wrong.
func conditionHandler(look func(context.Context) []lack) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w, "application/json")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		c := condition{Reasons: look(r.Context())}
		status := http.StatusServiceUnavailable
		if c.OK = len(c.Reasons) == 0; c.OK {
			status = http.StatusOK
		}
		w.WriteHeader(status)
		if raw, err := json.Marshal(c); err == nil && r.Method == http.MethodGet {
			_, _ = io.WriteString(w, string(raw)+"\n")
		}
	})
}
