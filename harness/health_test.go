package harness_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// well asks a handler of health, and returns what is wrong.
func well(t *testing.T, h http.Handler) []map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	var body struct {
		OK      bool
		Reasons []map[string]string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	want := http.StatusServiceUnavailable
	if len(body.Reasons) == 0 {
		want = http.StatusOK
	}
	if w.Code != want || body.OK != (want == http.StatusOK) || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	return body.Reasons
}

func wrong(t *testing.T, h http.Handler, want ...map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, well(t, h)); diff != "" {
		t.Errorf("what is wrong (-want +got):\n%s", diff)
	}
}

func TestHealthIsThatOfTheStore(t *testing.T) {
	st := store.Memory()
	h := open(t, harness.Config{Store: st})
	wrong(t, h.Health())
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	wrong(t, h.Health(), map[string]string{"what": "store", "code": "closed"})
}

func TestAHarnessIsReadyWhenItListens(t *testing.T) {
	thing := inmemory.New(inmemory.Options{Surface: "x"})
	bell := triggers.NewSource([]triggers.EventType{triggers.Declare[chime]("rang")}, nil)
	down := triggers.Trigger{ID: "down", Connection: "down", Event: "rang"}
	refuses := inmemory.New(inmemory.Options{Surface: "x"})
	refuses.FailConnect(inmemory.Fault{Times: -1, Err: errors.New("no")})
	h := open(t, harness.Config{Graph: steps.Func("f", nothing), Inbox: triggers.InboxLimits{Pause: time.Millisecond},
		Triggers: []triggers.Trigger{onRing(), down},
		Connections: connection.Set{"bell": {Provider: bell}, "thing": {Provider: thing, Required: true}, "down": {Provider: refuses},
			"idle": {Provider: refuses}}})
	wrong(t, h.Ready(), map[string]string{"what": "start"})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	isDown := map[string]string{"what": "trigger", "name": "down", "connection": "down"}
	wrong(t, h.Ready(), isDown)
	thing.FailConnect(inmemory.Fault{Times: -1, Err: errors.New("no")})
	thing.Drop()
	for ev := range h.Events(t.Context(), "") {
		if ev.Type == event.ConnectionUnavailable && ev.Connection == "thing" {
			break
		}
	}
	wrong(t, h.Ready(), map[string]string{"what": "connection", "name": "thing", "code": "connection_unavailable"}, isDown)
	wrong(t, h.Health())
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong(t, h.Ready(), map[string]string{"what": "drain"})
}

func TestHealthIsOnlyAsked(t *testing.T) {
	h := open(t, harness.Config{})
	for _, handler := range []http.Handler{h.Health(), h.Ready()} {
		for method, allowed := range map[string]bool{"HEAD": true, "POST": false, "DELETE": false} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
			if (w.Code != http.StatusMethodNotAllowed) != allowed || w.Body.Len() > 0 {
				t.Errorf("%s: %d %s", method, w.Code, w.Body)
			}
		}
	}
}
