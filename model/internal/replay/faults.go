package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// Key is the planted secret: no error may hold it.
const Key = "sk-planted-0123456789"

// Maker makes the model under test, with Key, for a service at url.
type Maker func(t *testing.T, url string, client *http.Client) model.Model

// Hello is a request that every model can answer.
func Hello() *model.Request {
	return &model.Request{Items: []model.Item{model.Text(model.User, "hello")}}
}

// Failure is what a bad answer has to come to.
type Failure struct {
	Name   string
	Answer Answer
	Code   fault.Code
	Peer   string
	After  time.Duration // of a RetryAfter; 0 is that there is none
}

// Fail checks each failure, and that no error holds Key.
func Fail(t *testing.T, fresh Maker, failures ...Failure) {
	for _, f := range failures {
		t.Run(f.Name, func(t *testing.T) {
			s := New(t, f.Answer)
			h := Listen(fresh(t, s.URL, s.Client).Stream(t.Context(), Hello()))
			if h.Reply != nil || fault.CodeOf(h.Err) != f.Code {
				t.Fatalf("got %v, %v, want %s", h.Reply, h.Err, f.Code)
			}
			if fe, ok := errors.AsType[*fault.Error](h.Err); !ok || fe.PeerCode != f.Peer {
				t.Errorf("got %+v, want peer code %q", fe, f.Peer)
			}
			retry, _ := errors.AsType[model.RetryAfter](h.Err)
			if retry.After != f.After {
				t.Errorf("asks to wait %s, want %s", retry.After, f.After)
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v", h.Err, h.Err, h.Err), Key) { //allow:errtext a secret must not be in it
				t.Errorf("the key is in %v", h.Err)
			}
			if n := len(s.Asked()); n != 1 {
				t.Errorf("asked %d times, want once: the harness retries", n)
			}
		})
	}
}

// Statuses are the answers that every service gives in the same form.
func Statuses() []Failure {
	body := func(kind, code string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"code":%q,"message":"about %s, see the manual"}}`, kind, code, Key)
	}
	return []Failure{
		{"slow down", Answer{Status: 429, Header: http.Header{"Retry-After": {"7"}}, Body: body("rate_limit_error", "")},
			fault.ModelRateLimit, "rate_limit_error", 7 * time.Second},
		{"slow down a little", Answer{Status: 429, Header: http.Header{"Retry-After-Ms": {"250.5"}, "Retry-After": {"1"}}},
			fault.ModelRateLimit, "429", 250500 * time.Microsecond},
		{"slow down without saying how", Answer{Status: 429, Header: http.Header{"Retry-After": {"soon"}}, Body: "no JSON"},
			fault.ModelRateLimit, "429", 0},
		{"no money", Answer{Status: 429, Body: body("insufficient_quota", "insufficient_quota")},
			fault.ModelRejected, "insufficient_quota", 0},
		{"overloaded", Answer{Status: 529, Body: body("overloaded_error", "")}, fault.ModelRateLimit, "overloaded_error", 0},
		{"unavailable", Answer{Status: 503, Header: http.Header{"Retry-After": {"2"}}},
			fault.ModelRateLimit, "503", 2 * time.Second},
		{"broken", Answer{Status: 500, Body: body("api_error", "")}, fault.ModelFailed, "api_error", 0},
		{"bad gateway", Answer{Status: 502, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<html>" + strings.Repeat("x", 1<<20)},
			fault.ModelFailed, "502", 0},
		{"wrong key", Answer{Status: 401, Body: body("authentication_error", Key)}, fault.ModelRejected, "[key]", 0},
		{"bad request", Answer{Status: 400, Body: body("invalid_request_error", "")}, fault.ModelRejected, "invalid_request_error", 0},
		{"numbered problem", Answer{Status: 400, Body: `{"error":{"code":429,"message":"upstream"}}`}, fault.ModelRateLimit, "429", 0},
		{"problem as a text", Answer{Status: 404, Body: `{"error":"no such model"}`}, fault.ModelRejected, "404", 0},
		{"redirect", Answer{Status: 307, Header: http.Header{"Location": {"http://127.0.0.1:9/"}}}, fault.ModelRejected, "307", 0},
		{"a page instead of a stream", Answer{Header: http.Header{"Content-Type": {"text/html"}}, Body: "<html>"},
			fault.ModelRejected, "", 0},
		{"a problem with a good status", Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: body("server_error", "")},
			fault.ModelFailed, "server_error", 0},
		{"cut before the first event", Answer{Cut: true}, fault.ModelFailed, "", 0},
		{"empty", Answer{}, fault.ModelFailed, "", 0},
		{"only signs of life", Answer{Body: ": hm\n\n: hm\n\n"}, fault.ModelFailed, "", 0},
		{"no JSON", Answer{Body: "data: {\"type\":\"mess\n\n"}, fault.ModelFailed, "", 0},
		{"a huge event", Answer{Body: "data: \"" + strings.Repeat("x", 17<<20) + "\"\n\n"}, fault.ModelFailed, "", 0},
		{"cut within a line", Answer{Body: "data: {\"type\":", Cut: true}, fault.ModelFailed, "", 0},
	}
}

// Unreachable checks a service that nobody runs: its URL is in no error.
func Unreachable(t *testing.T, fresh Maker) {
	s := New(t, Answer{})
	client := &http.Client{Transport: refusing{}}
	h := Listen(fresh(t, s.URL+"/secret-path", client).Stream(t.Context(), Hello()))
	if fault.CodeOf(h.Err) != fault.ModelFailed || !errors.Is(h.Err, errNobody) {
		t.Fatalf("got %v, want model_failed over the cause", h.Err)
	}
	if strings.Contains(h.Err.Error(), "secret-path") { //allow:errtext a URL must not be in it
		t.Errorf("the URL is in %v", h.Err)
	}
}

var errNobody = errors.New("nobody is there")

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNobody }

// Cancelled checks that a stream that has begun ends with its context, and
// that nothing is left when its reader breaks out.
func Cancelled(t *testing.T, fresh Maker, begun string) {
	s := New(t, Answer{Body: begun, Hang: true})
	m := fresh(t, s.URL, s.Client)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for ev, err := range m.Stream(ctx, Hello()) {
		last = err
		if ev.Type == model.TextDelta {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("ended with %v, want the context's error", last)
	}
	for range m.Stream(t.Context(), Hello()) {
		break
	}
}
