package browsercrash_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// site is a page with a form, and remembers what was submitted.
type site struct {
	url     string
	reached chan struct{} // is told of each submission
	answers chan struct{} // closed when submissions are answered

	mu    sync.Mutex
	names []string // submitted so far
}

// newSite serves until the test ends. If it holds, submissions are not answered
// before answer is called.
func newSite(t *testing.T, hold bool) *site {
	t.Helper()
	s := &site{reached: make(chan struct{}, 10), answers: make(chan struct{})}
	if !hold {
		close(s.answers)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /form", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><title>Sign in</title><link rel="icon" href="data:,"><h1>Sign in</h1>
			<form method="post" action="/session"><label>Name <input name="name"></label><button>Sign in</button></form>`)
	})
	mux.HandleFunc("POST /session", s.submitted)
	srv := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	s.url = "http://" + l.Addr().String() + "/form"
	return s
}

func (s *site) submitted(w http.ResponseWriter, r *http.Request) {
	name := r.PostFormValue("name")
	s.mu.Lock()
	s.names = append(s.names, name)
	s.mu.Unlock()
	s.reached <- struct{}{}
	select {
	case <-s.answers:
		fmt.Fprintf(w, `<!doctype html><title>Hello</title><h1>Hello %s</h1>`, name)
	case <-r.Context().Done():
	}
}

// answer has submissions answered from now on.
func (s *site) answer() { close(s.answers) }

// saw returns what was submitted so far.
func (s *site) saw() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names)
}
