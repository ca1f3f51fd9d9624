package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// eras are the two kinds of HTTP server there are.
func eras() map[string]*sdk.StreamableHTTPOptions {
	return map[string]*sdk.StreamableHTTPOptions{
		"legacy":      {},
		"legacy json": {JSONResponse: true},
		"modern":      {Stateless: true, PropagateRequestCancellation: true},
		"modern json": {Stateless: true, JSONResponse: true, PropagateRequestCancellation: true},
	}
}

// front is an HTTP server whose handler a test can put something in front of.
type front struct {
	*httptest.Server
	server *sdk.Server
	before atomic.Pointer[http.HandlerFunc] // returns after writing, or panics with pass
}

var errPass = errors.New("pass on to the real server")

// intercept has h answer requests until it panics with errPass.
func (f *front) intercept(h http.HandlerFunc) { f.before.Store(&h) }

func serveHTTP(t *testing.T, opts *sdk.StreamableHTTPOptions) *front {
	t.Helper()
	over := make(chan struct{})
	s := goodServer(over)
	real := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, opts)
	f := &front{server: s}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := f.before.Load(); h != nil && answeredBy(*h, w, r) {
			return
		}
		real.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(over)
		for session := range s.Sessions() {
			session.Close()
		}
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func answeredBy(h http.HandlerFunc, w http.ResponseWriter, r *http.Request) (answered bool) {
	defer func() {
		if v := recover(); v != nil && v != any(errPass) {
			panic(v)
		} else if v == nil {
			answered = true
		}
	}()
	h(w, r)
	return
}

// method reads the JSON-RPC method of a request and leaves the body in place.
func method(r *http.Request) (method, id string) {
	data, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(data)))
	var m struct {
		Method string
		ID     json.RawMessage
	}
	json.Unmarshal(data, &m)
	return m.Method, string(m.ID)
}

// onCall answers tools/call with h and passes everything else on.
func onCall(h func(w http.ResponseWriter, r *http.Request, id string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m, id := method(r)
		if m != "tools/call" {
			panic(errPass)
		}
		h(w, r, id)
	}
}

func TestHTTPBothEras(t *testing.T) {
	t.Parallel()
	for name, opts := range eras() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serveHTTP(t, opts)
			c := connect(t, mcp.HTTP(f.URL+"/mcp", nil), &host{})
			r := call(t, c, "echo", `{"n":9007199254740993}`)
			if string(r.Value) != `{"n":9007199254740993}` {
				t.Errorf("got %s, want the argument exactly", r.Value)
			}
			_, err := c.Call(within(t), &provider.CallRequest{Op: "fail"})
			wantCode(t, err, fault.OpFailed)
			_, err = c.Call(within(t), &provider.CallRequest{Op: "nothing"})
			wantCode(t, err, fault.OpFailed)
			reader, _ := provider.Ability[provider.Reader](c)
			if got, err := reader.Read(within(t), &provider.ReadRequest{Name: "test://config"}); err != nil || string(got.Value) != `{"n":9007199254740993}` {
				t.Errorf("read: got %v, %v", got, err)
			}
			if !opts.JSONResponse {
				var steps int
				_, err = c.Call(within(t), &provider.CallRequest{Op: "steps", Progress: func(provider.Progress) { steps++ }})
				if err != nil || steps != 20 {
					t.Errorf("got %d progress reports and %v, want 20", steps, err)
				}
			}
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			f.server.AddReceivingMiddleware(note(func(op string, _ json.RawMessage) {
				if op == "wait" {
					cancel()
				}
			}))
			_, err = c.Call(ctx, &provider.CallRequest{Op: "wait"})
			wantLeft(t, err)
			call(t, c, "echo", `{}`)
			if err := c.Release(within(t)); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
}

func TestHTTPListChanged(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"legacy", "modern"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serveHTTP(t, eras()[name])
			c := connect(t, mcp.HTTP(f.URL, nil), &host{})
			changes := make(chan provider.Change, 100)
			w, _ := provider.Ability[provider.Watcher](c)
			defer w.Watch(func(ch provider.Change) { changes <- ch })()
			ctx := within(t)
			for !slices.Contains(names(c.Manifest()), "grown") {
				// The stream may not be there yet when the tool grows the list:
				// growing again announces again.
				call(t, c, "grow", `{}`)
				select {
				case <-changes:
				case <-time.After(200 * time.Millisecond):
				case <-ctx.Done():
					t.Fatal("no change was announced")
				}
			}
		})
	}
}

func TestOddHTTPAnswersCostOneCall(t *testing.T) {
	status := func(code int, kind, body string) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, _ *http.Request, id string) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			io.WriteString(w, strings.ReplaceAll(body, "$ID", id))
		}
	}
	tests := []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request, string)
		want   fault.Code
	}{
		{"400", status(400, "text/plain", "bad thing"), fault.OpFailed},
		{"401", status(401, "text/plain", ""), fault.OpFailed},
		{"403", status(403, "text/html", "<html>"), fault.OpFailed},
		{"405", status(405, "text/plain", ""), fault.OpFailed},
		{"413", status(413, "text/plain", ""), fault.OpFailed},
		{"418", status(418, "text/plain", ""), fault.OpFailed},
		{"429", status(429, "text/plain", ""), fault.OpFailed},
		{"500", status(500, "text/plain", ""), fault.OutcomeUnknown},
		{"503", status(503, "text/plain", ""), fault.OutcomeUnknown},
		{"400 with JSON-RPC", status(400, "application/json", `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"no"}}`), fault.OpFailed},
		{"202", status(202, "", ""), fault.OutcomeUnknown},
		{"HTML", status(200, "text/html", "<html>"), fault.OutcomeUnknown},
		{"broken JSON", status(200, "application/json", `{"jsonrpc":`), fault.OutcomeUnknown},
		{"empty", status(200, "application/json", ""), fault.OutcomeUnknown},
		{"other id", status(200, "application/json", `{"jsonrpc":"2.0","id":"other","result":{}}`), fault.OutcomeUnknown},
		{"too large", status(200, "application/json", `{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 1<<17)+`"}]}}`), fault.OutcomeUnknown},
		{"event too large", status(200, "text/event-stream", "data: "+strings.Repeat("x", 1<<17)+"\n\n"), fault.OutcomeUnknown},
		{"cut stream", status(200, "text/event-stream", "data: {\"jsonrpc\""), fault.OutcomeUnknown},
		{"odd lines in a stream", status(200, "text/event-stream", "no colon\n: comment\nevent: message\ndata: nonsense\n\n\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":$ID,\ndata: \"result\":{\"content\":[]}}\n\n"), ""},
		{"cut connection", func(w http.ResponseWriter, _ *http.Request, _ string) { panic(http.ErrAbortHandler) }, fault.OutcomeUnknown},
		{"redirect loop", func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
		}, fault.OpFailed},
		{"302", func(w http.ResponseWriter, r *http.Request, _ string) { http.Redirect(w, r, "/", http.StatusFound) }, fault.OpFailed},
	}
	for _, era := range []string{"legacy", "modern"} {
		f := serveHTTP(t, eras()[era])
		c := connect(t, mcp.HTTP(f.URL, &mcp.HTTPOptions{MaxBody: 1 << 16}), &host{})
		for _, tt := range tests {
			t.Run(era+"/"+tt.name, func(t *testing.T) {
				f.intercept(onCall(tt.answer))
				_, err := c.Call(within(t), &provider.CallRequest{Op: "echo"})
				if tt.want == "" && err != nil || tt.want != "" && !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				f.intercept(func(http.ResponseWriter, *http.Request) { panic(errPass) })
				call(t, c, "echo", `{}`)
			})
		}
	}
}

func TestForgottenSessionClosesTheConnection(t *testing.T) { // B002, B004, B010
	t.Parallel()
	for name, body := range map[string]string{
		"plain":    "session not found",
		"json-rpc": `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := serveHTTP(t, eras()["legacy"])
			c := connect(t, mcp.HTTP(f.URL, nil), &host{})
			var requests atomic.Int32
			f.intercept(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet { // the stream of announcements may be late
					requests.Add(1)
				}
				w.WriteHeader(http.StatusNotFound)
				io.WriteString(w, body)
			})
			_, err := c.Call(within(t), &provider.CallRequest{Op: "echo"})
			wantCode(t, err, fault.NotSent)
			<-c.Done()
			wantCode(t, c.Err(), fault.Unavailable)
			c.Release(within(t))
			if got := requests.Load(); got > 1 {
				t.Errorf("got %d requests after the session was gone, want the one call at most", got)
			}
		})
	}
}

func TestDeadServerIsNoticed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"legacy", "modern"} {
		t.Run(name, func(t *testing.T) {
			f := serveHTTP(t, eras()[name])
			c := connect(t, mcp.HTTP(f.URL, nil), &host{})
			f.CloseClientConnections()
			f.Listener.Close()
			for {
				_, err := c.Call(within(t), &provider.CallRequest{Op: "echo"})
				if errors.Is(err, fault.NotSent) {
					break
				}
				// A connection that was on its way may still have taken a byte.
				wantCode(t, err, fault.OutcomeUnknown)
			}
			<-c.Done()
		})
	}
}

func TestUnreachableServer(t *testing.T) {
	f := serveHTTP(t, nil)
	f.Close()
	_, err := mcp.HTTP(f.URL+"/mcp?key=secret-in-query", nil).Connect(within(t), nil)
	wantCode(t, err, fault.Unavailable)
	//allow:errtext no credential may be shown
	if strings.Contains(err.Error(), "secret-in-query") {
		t.Errorf("the error shows the key: %v", err)
	}
}

func TestBusyServerIsNotTakenForAnOldOne(t *testing.T) {
	f := serveHTTP(t, eras()["modern"])
	var initialized atomic.Bool
	f.intercept(func(w http.ResponseWriter, r *http.Request) {
		m, _ := method(r)
		if m == "server/discover" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		initialized.Store(m == "initialize")
		panic(errPass)
	})
	_, err := mcp.HTTP(f.URL, nil).Connect(within(t), nil)
	wantCode(t, err, fault.Unavailable)
	if initialized.Load() {
		t.Error("the client fell back to initialize")
	}
}

func TestCredentialsStayWithTheServer(t *testing.T) { // B086, B162
	t.Parallel()
	var mu sync.Mutex
	var leaked []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		leaked = append(leaked, fmt.Sprint(r.Header))
	}))
	defer other.Close()
	f := serveHTTP(t, eras()["modern"])
	const key, password, query = "header-credential", "url-password", "query-credential"
	var sent atomic.Value
	f.intercept(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		sent.Store([]string{r.Header.Get("X-Api-Key"), user, pass, r.URL.Query().Get("key")})
		if m, _ := method(r); m == "tools/call" {
			http.Redirect(w, r, other.URL+"/steal?"+query, http.StatusTemporaryRedirect)
			return
		}
		panic(errPass)
	})
	endpoint := strings.Replace(f.URL, "http://", "http://someone:"+password+"@", 1) + "/mcp?key=" + query
	h := &host{}
	c := connect(t, mcp.HTTP(endpoint, &mcp.HTTPOptions{Headers: []mcp.Header{{Name: "X-Api-Key", Value: key}}}), h)
	if got, want := sent.Load().([]string), []string{key, "someone", password, query}; !slices.Equal(got, want) {
		t.Errorf("the server got %v, want %v", got, want)
	}
	_, err := c.Call(within(t), &provider.CallRequest{Op: "echo"})
	wantCode(t, err, fault.OpFailed)
	if len(leaked) > 0 {
		t.Errorf("the other server got %v", leaked)
	}
	f.intercept(onCall(func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(400)
		fmt.Fprintf(w, "bad %s %s %s", key, password, query)
	}))
	_, echoed := c.Call(within(t), &provider.CallRequest{Op: "echo"})
	for _, secret := range []string{key, password, query} {
		if !slices.Contains(h.secrets, secret) {
			t.Errorf("%q was not registered for redaction", secret)
		}
		if text := err.Error() + echoed.Error() + h.logged(); strings.Contains(text, secret) {
			t.Errorf("an error or the log shows %q: %s", secret, text)
		}
	}
}

func TestRedirectWithinTheOriginIsFollowed(t *testing.T) {
	f := serveHTTP(t, eras()["modern"])
	f.intercept(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
			return
		}
		panic(errPass)
	})
	call(t, connect(t, mcp.HTTP(f.URL+"/old", nil), &host{}), "echo", `{}`)
}

func TestSilentServerCannotHoldRelease(t *testing.T) { // B012
	t.Parallel()
	f := serveHTTP(t, eras()["legacy"])
	c := connect(t, mcp.HTTP(f.URL, nil), &host{})
	over := make(chan struct{})
	f.intercept(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			<-over
			return
		}
		panic(errPass)
	})
	defer close(over)
	if err := c.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
}

func TestSilentServerCannotHoldConnect(t *testing.T) {
	over := make(chan struct{})
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-over
	}))
	defer s.Close()
	defer close(over)
	_, err := mcp.HTTP(s.URL, nil).Connect(ctx, nil)
	if !errors.Is(err, fault.Unavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want unavailable and the context's end", err)
	}
}

func TestFailingAnnouncementStreamHurtsNobody(t *testing.T) {
	for code, body := range map[int]string{401: "", 404: "", 500: "", 200: "<html>"} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			f := serveHTTP(t, &sdk.StreamableHTTPOptions{})
			asked := make(chan struct{}, 10)
			f.intercept(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || code == 404 {
					panic(errPass)
				}
				w.WriteHeader(code)
				io.WriteString(w, body)
				asked <- struct{}{}
			})
			c := connect(t, mcp.HTTP(f.URL, nil), &host{})
			if code != 404 {
				<-asked
			}
			call(t, c, "echo", `{}`)
		})
	}
}

// replies answers each method with its result.
func replies(results map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m, id := method(r)
		w.Header().Set("Content-Type", "application/json")
		if result, ok := results[m]; ok {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, id)
	}
}

// TestConnectionsAreUsedAgain has rounds of calls at the same time.
func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	const callers, times = 8, 5
	f := serveHTTP(t, eras()["modern json"])
	c := connect(t, mcp.HTTP(f.URL, nil), &host{})
	var mu sync.Mutex
	used := map[string]bool{}
	for range times {
		var all sync.WaitGroup // calls that have not come to the server
		all.Add(callers)
		f.intercept(func(_ http.ResponseWriter, r *http.Request) {
			if m, _ := method(r); m == "tools/call" {
				mu.Lock()
				used[r.RemoteAddr] = true
				mu.Unlock()
				all.Done()
				all.Wait()
			}
			panic(errPass)
		})
		var going sync.WaitGroup
		for range callers {
			going.Go(func() { call(t, c, "echo", `{}`) })
		}
		going.Wait()
	}
	if most := callers * times / 2; len(used) > most {
		t.Errorf("%d connections for %d calls, want at most %d", len(used), callers*times, most)
	}
}
