package harness_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/storetest"
	"github.com/google/go-cmp/cmp"
)

// askAdmin sends a request as if it had come over a connection of a network.
func askAdmin(t *testing.T, h http.Handler, network, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if network != "" {
		var at net.Addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
		if network == "unix" {
			at = &net.UnixAddr{Name: "x.sock", Net: "unix"}
		}
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, at))
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s %s: %s is %q", method, path, name, got)
		}
	}
	return w
}

// admin asks over a socket, and wants a status.
func admin(t *testing.T, h http.Handler, method, path, body string, status int, into any) {
	t.Helper()
	w := askAdmin(t, h, "unix", method, path, body)
	if w.Code != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, status)
	}
	if into == nil {
		into = new(map[string]any)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, w.Body, err)
	}
}

// adminEntries are the entries that are told of an execution.
func adminEntries(t *testing.T, h http.Handler, path string) []map[string]any {
	t.Helper()
	w := askAdmin(t, h, "unix", "GET", path, "")
	var all []map[string]any
	ended := false
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		var line struct {
			Entry map[string]any
			End   *struct{ Entries int }
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || ended {
			t.Fatalf("line %s: %v", lines.Text(), err)
		}
		if line.End != nil {
			ended = line.End.Entries == len(all)
			continue
		}
		all = append(all, line.Entry)
	}
	if !ended {
		t.Fatal("the entries do not end")
	}
	return all
}

func TestAdminIsForUnixSocketsOnly(t *testing.T) {
	h := open(t, harness.Config{}).Admin()
	for _, path := range []string{"/status", "/executions", "/executions/x", "/approvals/", "/nowhere"} {
		for _, network := range []string{"", "tcp"} {
			w := askAdmin(t, h, network, "GET", path, "", "Authorization", "Bearer x")
			if w.Code != 403 || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s over %q: %d %s", path, network, w.Code, w.Body)
			}
		}
		for _, mark := range []string{"Origin", "Sec-Fetch-Site", "X-Forwarded-For", "Forwarded", "Via"} {
			if w := askAdmin(t, h, "unix", "GET", path, "", mark, "x"); w.Code != 403 {
				t.Errorf("%s with %s: %d", path, mark, w.Code)
			}
		}
	}
	tcp := httptest.NewServer(h)
	defer tcp.Close()
	res, err := http.Get(tcp.URL + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 403 {
		t.Errorf("a real TCP server answers %d", res.StatusCode)
	}
}

func TestAdminRefusesWhatItDoesNotServe(t *testing.T) {
	h := open(t, harness.Config{Store: store.Memory()}).Admin()
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/", "", 404}, {"GET", "/status/x", "", 404}, {"POST", "/status", "", 405}, {"DELETE", "/executions", "", 405},
		{"GET", "/executions/none", "", 404}, {"GET", "/executions/none/entries", "", 404}, {"GET", "/executions?limit=0", "", 400},
		{"GET", "/executions?limit=x", "", 400}, {"GET", "/threads/t/abort", "", 405}, {"POST", "/threads/t/abort", "", 404},
		{"POST", "/threads/t/abort", "[]", 400}, {"POST", "/threads/t/abort", "null", 400}, {"POST", "/threads/t/abort", `{"reason":1}`, 400},
		{"POST", "/threads/t/abort", `{"reason":"a","reason":"b"}`, 400}, {"POST", "/threads/t/abort", `{"x":"a"}`, 400},
		{"POST", "/threads/t/abort", `{"reason":"` + strings.Repeat("x", 2000) + `"}`, 400},
		{"POST", "/threads/t/abort", `{"reason":"` + strings.Repeat("x", 20_000) + `"}`, 413},
		{"GET", "/approvals/none", "", 404}, {"POST", "/approvals/none", `{"verdict":"allow"}`, 404},
	} {
		var got struct{ Error string }
		admin(t, h, c.method, c.path, c.body, c.status, &got)
		if got.Error == "" {
			t.Errorf("%s %s says nothing", c.method, c.path)
		}
	}
}

func TestAdminTellsWhatACutRunWasAboutToDo(t *testing.T) {
	st, s := store.Memory(), newShaky(facts(provider.Facts{Once: true}))
	defer st.Close()
	dies(t, st, s, three())
	h := open(t, harness.Config{Store: st, Connections: attached("a", s)}).Admin()
	var one struct {
		Execution struct {
			ID, State string
			Live      bool
		}
	}
	admin(t, h, "GET", "/executions/exe-1", "", 200, &one)
	if one.Execution.State != "running" || one.Execution.Live {
		t.Errorf("a run whose harness ended is %+v", one.Execution)
	}
	got := adminEntries(t, h, "/executions/exe-1/entries")
	if len(got) != 2 || got[0]["op"] != "add" || got[1]["op"] != "hang" || got[1]["pending"] != true || got[1]["key"] == "" {
		t.Errorf("entries %v", got)
	}
	if got[0]["output"] != nil || got[0]["outputBytes"] != 1.0 {
		t.Errorf("without being asked for values: %v", got[0])
	}
	if got := adminEntries(t, h, "/executions/exe-1/entries?values=all"); got[0]["output"] != 1.0 {
		t.Errorf("values %v", got[0])
	}
}

func TestAdminListsInPages(t *testing.T) {
	st := store.Memory()
	defer st.Close()
	h := open(t, harness.Config{Store: st, Connections: attached("a", ops("x"))})
	var want []string
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		want = append(want, id)
		if _, err := h.Run(t.Context(), steps.Call{ID: "x", Connection: "a", Op: "x"}, nil, &harness.RunOptions{Execution: harness.ExecutionID(id)}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for after, pages := "", 0; pages < 9; pages++ {
		var page struct {
			Executions []struct{ ID string }
			Next       string
		}
		admin(t, h.Admin(), "GET", "/executions?limit=2&after="+after, "", 200, &page)
		for _, x := range page.Executions {
			got = append(got, x.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("executions (-want +got):\n%s", diff)
	}
}

func TestAdminDecidesAndAborts(t *testing.T) {
	st, p := store.Memory(), ops("x")
	defer st.Close()
	m := scripted.New(scripted.CallTool("a_x", nil), scripted.CallTool("a_x", nil), scripted.Say("done"))
	h := open(t, harness.Config{Store: st, Model: m, Approver: gates.Elsewhere(),
		Connections: connection.Set{"a": {Provider: p, Policy: connection.Policy{Approve: []string{"*"}}}}})
	turn := say(t, h, "go", harness.ExecuteOptions{Thread: "t"})
	asked := until(t, h, typed(event.ApprovalRequested, ""))
	var list struct {
		Approvals []struct{ ID, Op, Execution string }
	}
	admin(t, h.Admin(), "GET", "/approvals/", "", 200, &list)
	if len(list.Approvals) != 1 || list.Approvals[0].Op != "x" || list.Approvals[0].Execution != string(asked.Execution) {
		t.Fatalf("asked for %+v", list)
	}
	var status struct{ Running []string }
	admin(t, h.Admin(), "GET", "/status", "", 200, &status)
	if !cmp.Equal(status.Running, []string{string(asked.Execution)}) {
		t.Errorf("running %v", status.Running)
	}
	admin(t, h.Admin(), "POST", "/approvals/"+list.Approvals[0].ID, `{"verdict":"allow"}`, 200, nil)
	until(t, h, func(ev event.Event) bool { return ev.Type == event.ApprovalRequested && ev.ID != asked.ID })
	if n := len(p.Calls()); n != 1 {
		t.Errorf("%d calls after a yes", n)
	}
	var aborted struct{ Thread, Execution string }
	admin(t, h.Admin(), "POST", "/threads/t/abort", `{"reason":"enough"}`, 200, &aborted)
	if aborted.Thread != "t" || aborted.Execution != string(asked.Execution) {
		t.Errorf("aborted %+v", aborted)
	}
	if _, err := turn.Wait(t.Context()); err == nil {
		t.Error("the turn ended well")
	}
	admin(t, h.Admin(), "POST", "/threads/t/abort", "", 404, nil)
}

// TestAdminShowsNoSecretsAndNoSeals has a harness that learns a secret only
// after it was recorded.
func TestAdminShowsNoSecretsAndNoSeals(t *testing.T) {
	const password = "correct-horse-battery"
	st := store.Memory()
	defer st.Close()
	p := inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{
		"look":  fixed(`{"properties":{"el":{"x-ref":{"kind":"element"}}}}`, `{"el":"e1","said":"`+password+`","dir":"a\u202eb\u001b[2J"}`),
		"enter": inmemory.Reply(true)}})
	config := harness.Config{Store: st, Connections: attached("a", p), Secrets: secrets.Map{"login": secrets.NewValue(password)}}
	h := open(t, config)
	run := func(id harness.ExecutionID, op string, args any) {
		if _, err := h.Run(t.Context(), steps.Call{ID: "x", Connection: "a", Op: op, Args: args}, "it is "+password, &harness.RunOptions{Execution: id}); err != nil {
			t.Fatal(err)
		}
	}
	run("one", "look", nil)
	run("two", "enter", map[string]any{"password": secrets.Ref("login")})
	for _, path := range []string{"/executions/one", "/executions/one/entries?values=all", "/executions/two/entries?values=all", "/executions", "/status"} {
		body := askAdmin(t, h.Admin(), "unix", "GET", path, "").Body.String()
		for _, bad := range []string{password, `"sig"`} {
			if strings.Contains(body, bad) {
				t.Errorf("%s shows %s: %s", path, bad, body)
			}
		}
		if i := strings.IndexFunc(strings.ReplaceAll(body, "\n", ""), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%s has a raw character at %d: %q", path, i, body)
		}
		if path == "/executions/one" && !strings.Contains(body, `"$ref":{"connection":"a","id":"e1","kind":"element"`) {
			t.Errorf("the reference is gone: %s", body)
		}
	}
}

func TestAdminWithoutALedgerSaysSo(t *testing.T) {
	h := open(t, harness.Config{})
	var list struct {
		Executions []any
		Recorded   bool
	}
	admin(t, h.Admin(), "GET", "/executions", "", 200, &list)
	if list.Executions == nil || list.Recorded {
		t.Errorf("%+v", list)
	}
	var refused struct{ Code, Hint string }
	admin(t, h.Admin(), "GET", "/executions/x", "", 404, &refused)
	if refused.Code != "EXECUTION_UNKNOWN" || refused.Hint == "" {
		t.Errorf("%+v", refused)
	}
}

func TestTheSocketOfTheExampleIsPrivate(t *testing.T) {
	dir, err := os.MkdirTemp("", "admin")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, socket, err := serveAdmin(open(t, harness.Config{}), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for path, want := range map[string]os.FileMode{dir: 0o700, socket: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}

func TestAdminReadsOnlyThePageThatIsAskedFor(t *testing.T) {
	st := &storetest.Counter{Store: store.Memory()}
	defer st.Close()
	h := open(t, harness.Config{Store: st})
	l, err := ledger.Open(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		x := ledger.Execution{ID: harness.ExecutionID(fmt.Sprintf("x%04d", i)), Thread: "t", Step: "s"}
		if _, err := l.Begin(t.Context(), x, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, after := range []string{"", "x2500", "x4889"} {
		before := st.Visited.Load()
		var page struct {
			Executions []any
			Next       string
		}
		admin(t, h.Admin(), "GET", "/executions?limit=100&after="+after, "", 200, &page)
		if n := st.Visited.Load() - before; n > 200 || len(page.Executions) != 100 || page.Next == "" {
			t.Errorf("after %q: %d records were read for %d executions, next %q", after, n, len(page.Executions), page.Next)
		}
	}
}
