// Package replay serves recorded streams to model adapters under test.
package replay

import (
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bridle-dev/bridle/model"
)

// Answer is what a server says to one request.
type Answer struct {
	Status int         // 0 is 200
	Header http.Header // Content-Type defaults to that of a stream, or of JSON beside 200
	Body   string
	Cut    bool // break the connection behind the body instead of ending it
	Hang   bool // say nothing more behind the body until the client leaves
}

// Asked is a request that a server received.
type Asked struct {
	Path   string      // of the URL
	Header http.Header // as it arrived
	Body   []byte      // whole
}

// Server answers requests in turn, the last answer again and again.
type Server struct {
	// URL is where it listens, without a path.
	URL string
	// Client reaches it; its connections are closed when the test ends.
	Client *http.Client

	mu      sync.Mutex
	answers []Answer
	asked   []Asked
}

// New starts a server that lives as long as the test.
func New(t testing.TB, answers ...Answer) *Server {
	s := &Server{answers: answers}
	h := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(h.Close)
	s.URL, s.Client = h.URL, h.Client()
	return s
}

// Asked returns the requests so far.
func (s *Server) Asked() []Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Asked(nil), s.asked...)
}

func (s *Server) next(r *http.Request) Answer {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, Asked{r.URL.Path, r.Header.Clone(), body})
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return a
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	a := s.next(r)
	kind := "text/event-stream; charset=utf-8"
	if a.Status/100 > 2 {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	for k, v := range a.Header {
		w.Header()[k] = v
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	io.WriteString(w, a.Body)
	http.NewResponseController(w).Flush()
	if a.Hang {
		<-r.Context().Done()
	}
	if a.Cut {
		panic(http.ErrAbortHandler)
	}
}

// File reads a recorded stream of testdata.
func File(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Heard is everything a stream said.
type Heard struct {
	Text, Reasoning, Args string // of the deltas
	Started               []string
	Alive                 int
	Reply                 *model.Reply
	Err                   error
}

// Listen pulls a stream to its end.
func Listen(stream iter.Seq2[model.Event, error]) Heard {
	var h Heard
	for ev, err := range stream {
		if err != nil {
			h.Err = err
			continue
		}
		switch ev.Type {
		case model.TextDelta:
			h.Text += ev.Text
		case model.ReasoningDelta:
			h.Reasoning += ev.Text
		case model.CallDelta:
			h.Args += ev.Text
		case model.CallStarted:
			h.Started = append(h.Started, ev.Item.CallID+" "+ev.Item.Name)
		case model.Alive:
			h.Alive++
		case model.Done:
			h.Reply = ev.Reply
		}
	}
	return h
}

// Value reads JSON for comparisons that do not care for order and space.
func Value(t testing.TB, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, raw)
	}
	return v
}
