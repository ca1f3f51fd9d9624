package triggers_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

const (
	hook       = "/hooks/deploys"
	deployBody = `{"type":"deploy.failed","timestamp":"2026-09-21T14:13:20Z","data":{"service":"checkout"}}`
)

// post makes a delivery that is signed now.
func post(id, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, hook, strings.NewReader(body))
	r.Header = standardHeaders(whsec, id, unix(time.Now()), body)
	return r
}

func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// oneRoute is a receiver with one source, which is connected and stored from.
func oneRoute(t *testing.T, opts *triggers.WebhookOptions) (*triggers.WebhookReceiver, *storing) {
	t.Helper()
	hooks := triggers.NewWebhookReceiver(opts)
	s := hooks.Source(hook, triggers.StandardWebhooks(whsec), triggers.Declare[deployFailed]("deploy.failed"), triggers.Declare[deployFailed]("deploy.done"))
	return hooks, store(listen(t, connect(t, s), "deploy.failed", ""), nil)
}

func TestEachDeliveryHasItsAnswer(t *testing.T) {
	refused := func(why triggers.Refusal) triggers.WebhookStatus {
		return triggers.WebhookStatus{Refused: map[triggers.Refusal]int64{why: 1}}
	}
	with := func(r *http.Request, change func(*http.Request)) *http.Request {
		change(r)
		return r
	}
	for _, tt := range []struct {
		name    string
		request func() *http.Request
		status  int
		counts  triggers.WebhookStatus
	}{
		{"stored", func() *http.Request { return post("msg_1", deployBody) }, 204, triggers.WebhookStatus{Accepted: 1}},
		{"of another content type", func() *http.Request {
			return with(post("msg_1", deployBody), func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") })
		}, 204, triggers.WebhookStatus{Accepted: 1}},
		{"of a length that is not told", func() *http.Request {
			return with(post("msg_1", deployBody), func(r *http.Request) { r.ContentLength = -1 })
		}, 204, triggers.WebhookStatus{Accepted: 1}},
		{"not declared", func() *http.Request { return post("msg_1", `{"type":"deploy.begun","data":7}`) }, 200, triggers.WebhookStatus{Ignored: 1}},
		{"unknown route", func() *http.Request {
			return with(post("msg_1", deployBody), func(r *http.Request) { r.URL.Path = hook + "/" })
		}, 404, refused(triggers.RefusedRoute)},
		{"GET", func() *http.Request { return httptest.NewRequest(http.MethodGet, hook, nil) }, 405, refused(triggers.RefusedMethod)},
		{"PUT", func() *http.Request {
			return with(post("msg_1", deployBody), func(r *http.Request) { r.Method = http.MethodPut })
		}, 405, refused(triggers.RefusedMethod)},
		{"too long, as it says", func() *http.Request { return post("msg_1", deployBody+strings.Repeat(" ", 8<<10)) }, 413, refused(triggers.RefusedSize)},
		{"too long, without saying so", func() *http.Request {
			return with(post("msg_1", deployBody+strings.Repeat(" ", 8<<10)), func(r *http.Request) { r.ContentLength = -1 })
		}, 413, refused(triggers.RefusedSize)},
		{"broken off", func() *http.Request {
			return with(post("msg_1", deployBody), func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(r.Body, broken{})) })
		}, 400, refused(triggers.RefusedBody)},
		{"not signed", func() *http.Request {
			return with(post("msg_1", deployBody), func(r *http.Request) { r.Header = http.Header{} })
		}, 401, refused(triggers.RefusedSignature)},
		{"signed with another secret", func() *http.Request {
			return with(post("msg_1", deployBody), func(r *http.Request) {
				r.Header = standardHeaders(whsec2, "msg_1", unix(time.Now()), deployBody)
			})
		}, 401, refused(triggers.RefusedSignature)},
		{"signed too long ago", func() *http.Request {
			return with(post("msg_1", deployBody), func(r *http.Request) {
				r.Header = standardHeaders(whsec, "msg_1", unix(time.Now().Add(-301*time.Second)), deployBody)
			})
		}, 401, refused(triggers.RefusedTime)},
		{"signed in the future", func() *http.Request {
			return with(post("msg_1", deployBody), func(r *http.Request) {
				r.Header = standardHeaders(whsec, "msg_1", unix(time.Now().Add(302*time.Second)), deployBody)
			})
		}, 401, refused(triggers.RefusedTime)},
		{"empty", func() *http.Request { return post("msg_1", "") }, 400, refused(triggers.RefusedFormat)},
		{"no JSON", func() *http.Request { return post("msg_1", `{"type":`) }, 400, refused(triggers.RefusedFormat)},
		{"two JSON values", func() *http.Request { return post("msg_1", deployBody+deployBody) }, 400, refused(triggers.RefusedFormat)},
		{"a name twice", func() *http.Request { return post("msg_1", `{"type":"deploy.failed","type":"deploy.done"}`) }, 400, refused(triggers.RefusedFormat)},
		{"no Unicode", func() *http.Request { return post("msg_1", "{\"type\":\"\xff\"}") }, 400, refused(triggers.RefusedFormat)},
		{"no type, where several are declared", func() *http.Request { return post("msg_1", `{"service":"checkout"}`) }, 400, refused(triggers.RefusedFormat)},
		{"payload that does not fit", func() *http.Request { return post("msg_1", `{"type":"deploy.failed","data":{"service":7}}`) }, 422, refused(triggers.RefusedPayload)},
		{"payload that is nested without end", func() *http.Request {
			return post("msg_1", `{"type":"deploy.failed","data":{"service":"a","x":`+strings.Repeat("[", 600)+strings.Repeat("]", 600)+`}}`)
		}, 422, refused(triggers.RefusedPayload)},
		{"of a type that nobody stores", func() *http.Request { return post("msg_1", `{"type":"deploy.done","data":{"service":"a"}}`) }, 503, refused(triggers.RefusedStore)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			hooks, reader := oneRoute(t, &triggers.WebhookOptions{MaxBody: 8 << 10, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			res := serve(hooks, tt.request())
			if res.StatusCode != tt.status {
				t.Errorf("status %d, want %d; log: %s", res.StatusCode, tt.status, &log)
			}
			if diff := cmp.Diff(tt.counts, hooks.Status()); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if got := res.Header.Get("Allow"); (got == "POST") != (tt.status == 405) {
				t.Errorf("Allow: %q", got)
			}
			if got := res.Header.Get("Retry-After"); (got != "") != (tt.status == 503) {
				t.Errorf("Retry-After: %q", got)
			}
			if logged := log.Len() > 0; logged != (tt.status >= 400) {
				t.Errorf("logged: %s", &log)
			}
			if stored := len(reader.batches) > 0; stored && tt.status != 204 {
				t.Errorf("stored: %v", reader.batches)
			}
		})
	}
}

// broken is a body that ends before its end.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestABadSignatureIsToldNothing(t *testing.T) {
	hooks, _ := oneRoute(t, nil)
	answers := map[string]bool{}
	for _, h := range []http.Header{{}, standardHeaders(whsec2, "msg_1", unix(time.Now()), deployBody),
		standardHeaders(whsec, "msg_1", "abc", deployBody), standardHeaders(whsec, "msg_1", "1", deployBody), standardHeaders(whsec, "m.1", unix(time.Now()), deployBody)} {
		r := post("msg_1", deployBody)
		r.Header = h
		res := serve(hooks, r)
		body, _ := io.ReadAll(res.Body)
		answers[fmt.Sprint(res.StatusCode, res.Header, string(body))] = true
	}
	if len(answers) != 1 {
		t.Errorf("several answers: %v", answers)
	}
}

func TestABodyWithoutATypeIsTheOneEventThatIsDeclared(t *testing.T) {
	hooks := triggers.NewWebhookReceiver(nil)
	s := hooks.Source(hook, triggers.StandardWebhooks(whsec), triggers.Declare[deployFailed]("deploy.failed"))
	reader := store(listen(t, connect(t, s), "deploy.failed", ""), nil)
	for body, status := range map[string]int{`{"service":"checkout"}`: 204, `{"type":"deploy.done","service":"checkout"}`: 200} {
		if res := serve(hooks, post("msg_1", body)); res.StatusCode != status {
			t.Errorf("%s: %d, want %d", body, res.StatusCode, status)
		}
	}
	if diff := cmp.Diff([]string{"msg_1"}, reader.ids()); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestTwoHundredComesAfterTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := triggers.NewWebhookReceiver(&triggers.WebhookOptions{InFlight: 2})
		s := hooks.Source(hook, triggers.StandardWebhooks(whsec), triggers.Declare[deployFailed]("deploy.failed"))
		commit := make(chan struct{})
		store(listen(t, connect(t, s), "deploy.failed", ""), func([]provider.Event) { <-commit })
		statuses := make(chan int, 3)
		for _, id := range []string{"msg_1", "msg_2"} {
			go func() { statuses <- serve(hooks, post(id, deployBody)).StatusCode }()
		}
		synctest.Wait()
		if len(statuses) != 0 {
			t.Error("answered before anything was stored")
		}
		if got := hooks.Status().InFlight; got != 2 {
			t.Errorf("%d in flight", got)
		}
		if res := serve(hooks, post("msg_3", deployBody)); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
			t.Errorf("one too many: %d %v", res.StatusCode, res.Header)
		}
		close(commit)
		synctest.Wait()
		if first, second := <-statuses, <-statuses; first != 204 || second != 204 {
			t.Errorf("got %d and %d", first, second)
		}
		want := triggers.WebhookStatus{Accepted: 2, Refused: map[triggers.Refusal]int64{triggers.RefusedBusy: 1}}
		if diff := cmp.Diff(want, hooks.Status()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

func TestASenderIsToldToComeAgainWhenStoringTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := triggers.NewWebhookReceiver(nil)
		s := hooks.Source(hook, triggers.StandardWebhooks(whsec), triggers.Declare[deployFailed]("deploy.failed"))
		listen(t, connect(t, s), "deploy.failed", "") // nobody reads
		began := time.Now()
		if res := serve(hooks, post("msg_1", deployBody)); res.StatusCode != 503 {
			t.Errorf("status %d", res.StatusCode)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

func TestWhatIsNotConnectedIsNotAccepted(t *testing.T) {
	hooks := triggers.NewWebhookReceiver(nil)
	s := hooks.Source(hook, triggers.StandardWebhooks(whsec), triggers.Declare[deployFailed]("deploy.failed"))
	if res := serve(hooks, post("msg_1", deployBody)); res.StatusCode != 503 {
		t.Errorf("before: %d", res.StatusCode)
	}
	c := connect(t, s)
	reader := store(listen(t, c, "deploy.failed", ""), nil)
	if res := serve(hooks, post("msg_1", deployBody)); res.StatusCode != 204 {
		t.Errorf("connected: %d", res.StatusCode)
	}
	c.Release(t.Context())
	<-reader.done
	if res := serve(hooks, post("msg_1", deployBody)); res.StatusCode != 503 {
		t.Errorf("after: %d", res.StatusCode)
	}
}

// Whoever stores drops repetitions by their ids; here all must arrive under
// one, and all senders be told that it is stored.
func TestConcurrentDuplicatesAreOneID(t *testing.T) {
	hooks, reader := oneRoute(t, nil)
	var senders sync.WaitGroup
	for range 32 {
		senders.Go(func() {
			if res := serve(hooks, post("msg_1", deployBody)); res.StatusCode != 204 {
				t.Errorf("status %d", res.StatusCode)
			}
		})
	}
	senders.Wait()
	for _, id := range reader.ids() {
		if id != "msg_1" {
			t.Errorf("id %q", id)
		}
	}
}

func TestAChallengeIsAnsweredOnceItIsVerified(t *testing.T) {
	hooks := triggers.NewWebhookReceiver(nil)
	hooks.Source(hook, triggers.Slack(plain), triggers.Declare[struct{}]("app_mention"))
	const body = `{"type":"url_verification","challenge":"3eZbrw1a"}`
	for secret, want := range map[string]string{plain: "3eZbrw1a", "guess": "Unauthorized\n"} {
		r := httptest.NewRequest(http.MethodPost, hook, strings.NewReader(body))
		r.Header = slackHeaders(secret, unix(time.Now()), body)
		res := serve(hooks, r)
		if got, _ := io.ReadAll(res.Body); string(got) != want {
			t.Errorf("%s: %d %q", secret, res.StatusCode, got)
		}
	}
	want := triggers.WebhookStatus{Answered: 1, Refused: map[triggers.Refusal]int64{triggers.RefusedSignature: 1}}
	if diff := cmp.Diff(want, hooks.Status()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

type verifierFunc func(*triggers.WebhookRequest) (*triggers.Verified, error)

func (f verifierFunc) Verify(r *triggers.WebhookRequest) (*triggers.Verified, error) { return f(r) }

func TestVerifiersOfOthersAreContained(t *testing.T) {
	for name, tt := range map[string]struct {
		verify verifierFunc
		status int
	}{
		"an error of its own": {func(*triggers.WebhookRequest) (*triggers.Verified, error) { return nil, errors.New("no") }, 401},
		"a refusal": {func(*triggers.WebhookRequest) (*triggers.Verified, error) {
			return nil, fmt.Errorf("late: %w", triggers.RefusedTime)
		}, 401},
		"nothing": {func(*triggers.WebhookRequest) (*triggers.Verified, error) { return nil, nil }, 400},
		"no id":   {func(*triggers.WebhookRequest) (*triggers.Verified, error) { return &triggers.Verified{Type: "a"}, nil }, 400},
		"no JSON": {func(*triggers.WebhookRequest) (*triggers.Verified, error) {
			return &triggers.Verified{ID: "1", Payload: []byte("{")}, nil
		}, 422},
		"a panic": {func(r *triggers.WebhookRequest) (*triggers.Verified, error) { panic(string(r.Body)) }, 500},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			hooks := triggers.NewWebhookReceiver(&triggers.WebhookOptions{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			hooks.Source(hook, tt.verify, triggers.EventType{Name: "a"})
			const planted = "pl4nted"
			if res := serve(hooks, post("msg_1", planted)); res.StatusCode != tt.status {
				t.Errorf("status %d, want %d: %s", res.StatusCode, tt.status, &log)
			}
			if strings.Contains(log.String(), planted) {
				t.Errorf("the log has the body: %s", &log)
			}
			if n := hooks.Status().InFlight; n != 0 {
				t.Errorf("%d in flight at the end", n)
			}
		})
	}
}

func TestMistakesInRoutesAreFoundByCheck(t *testing.T) {
	good := triggers.Declare[deployFailed]("deploy.failed")
	v := triggers.StandardWebhooks(whsec)
	hooks := triggers.NewWebhookReceiver(nil)
	if err := hooks.Source("/a", v, good).Check(); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*triggers.Source{
		"taken":            hooks.Source("/a", v, good),
		"empty":            hooks.Source("", v, good),
		"no slash":         hooks.Source("b", v, good),
		"slash at the end": hooks.Source("/b/", v, good),
		"dots":             hooks.Source("/b/../c", v, good),
		"query":            hooks.Source("/b?c", v, good),
		"no verifier":      hooks.Source("/c", nil, good),
		"no secret":        hooks.Source("/d", triggers.StandardWebhooks(), good),
		"empty secret":     hooks.Source("/e", triggers.GitHub(""), good),
		"no events":        hooks.Source("/f", v),
		"bad option":       triggers.NewWebhookReceiver(&triggers.WebhookOptions{InFlight: -1}).Source("/a", v, good),
	} {
		fe, _ := errors.AsType[*fault.Error](s.Check())
		if fe == nil || fe.Code != fault.ConnectionInvalid || fe.Hint == "" {
			t.Errorf("%s: got %v, want %s with a hint", name, fe, fault.ConnectionInvalid)
		}
	}
	for _, at := range []string{"/c", "/d", "/e", "/f"} {
		r := httptest.NewRequest(http.MethodPost, at, strings.NewReader(deployBody))
		if res := serve(hooks, r); res.StatusCode != 404 {
			t.Errorf("%s serves although it has a mistake: %d", at, res.StatusCode)
		}
	}
}

func TestNothingOfADeliveryIsLogged(t *testing.T) {
	var log bytes.Buffer
	hooks, _ := oneRoute(t, &triggers.WebhookOptions{Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	const planted = "pl4nted-credential"
	for _, body := range []string{planted, `{"type":"deploy.failed","data":{"service":["` + planted + `"]}}`,
		`{"type":"` + planted + `"}`, `{"type":"deploy.done","data":{"service":"` + planted + `"}}`} {
		r := post("msg_1", body)
		r.Header.Set("Authorization", planted)
		serve(hooks, r)
		r = post("msg_1", body)
		r.Header.Set("webhook-signature", planted)
		serve(hooks, r)
		r = post("msg_1", body)
		r.URL.Path = "/" + planted
		serve(hooks, r)
	}
	if log.Len() == 0 || strings.Contains(log.String(), planted) || strings.Contains(log.String(), whsec[10:]) {
		t.Errorf("log: %s", &log)
	}
}

func TestSecretsAreRegisteredWhenTheSourceIsConnected(t *testing.T) {
	hooks := triggers.NewWebhookReceiver(nil)
	s := hooks.Source(hook, triggers.StandardWebhooks(whsec, whsec2), triggers.Declare[deployFailed]("deploy.failed"))
	var got []string
	conns, err := s.Connect(t.Context(), &provider.ConnectOptions{Redact: func(secret string) { got = append(got, secret) }})
	if err != nil {
		t.Fatal(err)
	}
	defer conns[0].Release(context.Background())
	want := []string{whsec, whsec2, strings.TrimPrefix(whsec, "whsec_"), strings.TrimPrefix(whsec2, "whsec_")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}
	if id := conns[0].Identity().Instance; id != "webhook "+hook {
		t.Errorf("instance %q", id)
	}
}

func TestASenderWhoDoesNotGoOnLosesItsPlace(t *testing.T) {
	hooks, _ := oneRoute(t, &triggers.WebhookOptions{InFlight: 1, Wait: 300 * time.Millisecond})
	server := httptest.NewServer(hooks)
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{", hook)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest || hooks.Status().Refused[triggers.RefusedBody] != 1 {
		t.Errorf("it is told %s, counts %+v", answer.Status, hooks.Status())
	}
	if r := serve(hooks, post("msg_1", deployBody)); r.StatusCode != http.StatusNoContent {
		t.Errorf("the next is told %s", r.Status)
	}
}
