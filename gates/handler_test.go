package gates_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

const token = "t0ken-of-the-operators"

// desk is a book behind a handler.
type desk struct {
	t       *testing.T
	book    *gates.Approvals
	store   store.Store
	handler http.Handler
}

func newDesk(t *testing.T, opts *gates.HandlerOptions) *desk {
	s := store.Memory()
	t.Cleanup(func() { s.Close() })
	b := gates.OpenApprovals(s)
	return &desk{t, b, s, gates.NewHandler(b, token, opts)}
}

func (d *desk) do(method, path, body string, header ...string) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	for name, want := range map[string]string{"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := w.Header().Get(name); got != want {
			d.t.Errorf("%s %s: %s is %q", method, path, name, got)
		}
	}
	if !json.Valid(w.Body.Bytes()) {
		d.t.Errorf("%s %s: no JSON: %s", method, path, w.Body)
	}
	return w
}

func (d *desk) want(w *httptest.ResponseRecorder, status int) {
	d.t.Helper()
	if w.Code != status {
		d.t.Errorf("got %d %s, want %d", w.Code, w.Body, status)
	}
}

func TestAnOperatorDecidesOverHTTP(t *testing.T) {
	d := newDesk(t, nil)
	a := request(t, d.book, refund())
	var list struct {
		Approvals []struct {
			ID   gates.ApprovalID
			Args json.RawMessage
		}
	}
	w := d.do("GET", "/approvals/", "")
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 || len(list.Approvals) != 1 ||
		list.Approvals[0].ID != a.ID || string(list.Approvals[0].Args) != `{"amount":2000,"order":"A-1"}` {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	path := "/approvals/" + string(a.ID)
	d.want(d.do("GET", path, ""), 200)
	d.want(d.do("HEAD", path, ""), 200)
	d.want(d.do("POST", path, `{"verdict":"allow","digest":"another"}`), 409)
	w = d.do("POST", path, `{"verdict":"allow","by":"dora","reason":"fine","scope":"execution","digest":"`+a.Digest+`"}`)
	d.want(w, 200)
	var decided struct {
		State    string
		Decision gates.Decision
	}
	if err := json.Unmarshal(w.Body.Bytes(), &decided); err != nil || decided.State != "decided" || decided.Decision.By != "dora" || decided.Decision.Scope != gates.ThisExecution {
		t.Errorf("got %s", w.Body)
	}
	for _, verdict := range []string{"allow", "deny"} {
		d.want(d.do("POST", path, `{"verdict":"`+verdict+`"}`), 409)
	}
	if got, err := d.book.Find(t.Context(), a.ID); err != nil || got.Decision.Verdict != gates.Allow || got.Decision.Reason != "fine" {
		t.Errorf("got %+v, %v", got, err)
	}
	if w := d.do("GET", "/approvals", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"approvals":[]`) {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

func TestNobodyIsLetInWithoutTheToken(t *testing.T) {
	d := newDesk(t, nil)
	a := request(t, d.book, refund())
	path := "/approvals/" + string(a.ID)
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + token, token, "Bearer " + token + "x", "Bearer  " + token, "Bearer " + strings.ToUpper(token)} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			w := d.do(method, path, `{"verdict":"allow"}`, "Authorization", header, "Cookie", "token="+token)
			d.want(w, 401)
			if w.Header().Get("WWW-Authenticate") != "Bearer" || strings.Contains(w.Body.String(), "refund") {
				t.Errorf("got %v %s", w.Header(), w.Body)
			}
		}
	}
	d.want(d.do("GET", path+"?token="+token, "", "Authorization", ""), 401)
	d.want(d.do("GET", "/approvals/", "", "Authorization", "bearer "+token), 200) // the scheme has no case
	d.handler = gates.NewHandler(d.book, "", nil)
	d.want(d.do("GET", path, "", "Authorization", "Bearer "), 503)
	if got, err := d.book.Find(t.Context(), a.ID); err != nil || got.Closed() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRequestsThatCannotBeTakenChangeNothing(t *testing.T) {
	d := newDesk(t, nil)
	a := request(t, d.book, refund())
	path := "/approvals/" + string(a.ID)
	for body, status := range map[string]int{
		``: 400, `{`: 400, `null`: 400, `[]`: 400, `"allow"`: 400, `{}`: 400, `{"verdict":""}`: 400, `{"verdict":"yes"}`: 400, `{"verdict":true}`: 400,
		`{"verdict":"deny","verdict":"allow"}`: 400, `{"verdict":"deny","Verdict":"allow"}`: 400, `{"verdict":"allow","x":1}`: 400, `{"verdict":"allow"} {}`: 400,
		`{"verdict":"allow","scope":"forever"}`: 400, `{"verdict":"allow","args":{"amount":1}}`: 400, "{\"verdict\":\"allow\",\"by\":\"\xff\"}": 400,
		`{"verdict":"allow","args":` + strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100) + `}`: 400,
		`{"verdict":"allow","reason":"` + strings.Repeat("x", 1<<20) + `"}`:                      413,
	} {
		if w := d.do("POST", path, body); w.Code != status {
			t.Errorf("%.80s: got %d %s", body, w.Code, w.Body)
		}
	}
	for _, id := range []string{"ap-x", "..", "../open", string(a.ID) + "/", string(a.ID) + "x", strings.Repeat("x", 5000), "%00", "%2e%2e%2f"} {
		d.want(d.do("GET", "/approvals/"+id, ""), 404)
		d.want(d.do("POST", "/approvals/"+id, `{"verdict":"allow"}`), 404)
	}
	for _, p := range []string{"/", "/approval", "/approvalsx", "/x/approvals/"} {
		d.want(d.do("GET", p, ""), 404)
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "X"} {
		if w := d.do(method, path, `{"verdict":"allow"}`); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("%s: got %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	if w := d.do("POST", "/approvals/", `{"verdict":"allow"}`); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST to the list: got %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	for _, query := range []string{"limit=0", "limit=-1", "limit=x", "limit=99999999999999999999"} {
		d.want(d.do("GET", "/approvals/?"+query, ""), 400)
	}
	if got, err := d.book.Find(t.Context(), a.ID); err != nil || got.Closed() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAListComesInPages(t *testing.T) {
	d := newDesk(t, &gates.HandlerOptions{Prefix: "/ops/approvals"})
	want := map[gates.ApprovalID]bool{}
	for i := range 25 {
		a := refund()
		a.Call.Key = provider.Key(fmt.Sprint(i))
		want[request(t, d.book, a).ID] = true
	}
	after, pages := "", 0
	for pages < 10 {
		w := d.do("GET", "/ops/approvals/?limit=10&after="+after, "")
		var page struct {
			Approvals []struct{ ID gates.ApprovalID }
			Next      string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Approvals) > 10 {
			t.Fatalf("got %s", w.Body)
		}
		for _, a := range page.Approvals {
			if !want[a.ID] {
				t.Errorf("%s came twice", a.ID)
			}
			delete(want, a.ID)
		}
		pages++
		if after = page.Next; after == "" {
			break
		}
	}
	if len(want) != 0 || pages != 3 {
		t.Errorf("%d are missing after %d pages", len(want), pages)
	}
}

func TestHostileTextIsServedAsJSONStringsOnly(t *testing.T) {
	for _, text := range hostile() {
		d := newDesk(t, nil)
		a := refund()
		text = strings.ToValidUTF8(text, "")
		args, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		a.Call.Args, a.Reason, a.Call.Op, a.Call.Operation.Description = args, text, text, text
		a.Question = &provider.Question{Message: text}
		asked := request(t, d.book, a)
		for _, path := range []string{"", string(asked.ID)} {
			w := d.do("GET", "/approvals/"+path, "")
			body := strings.TrimSuffix(w.Body.String(), "\n")
			if i := strings.IndexFunc(body, func(r rune) bool { return !unicode.IsPrint(r) || r == '<' || r == '>' }); i >= 0 {
				t.Errorf("%q: raw character at %d of %s", text, i, body)
			}
			if path == "" {
				continue
			}
			var got struct {
				Op, Reason string
				Args       struct{ Text string }
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil || got.Op != text || got.Reason != text || got.Args.Text != text {
				t.Errorf("%q came as %+v, %v", text, got, err)
			}
		}
	}
}

func TestLongArgumentsAreCutAndSaySo(t *testing.T) {
	for _, size := range []int{5 << 10, 300 << 10} {
		d := newDesk(t, nil)
		a := refund()
		a.Call.Args = json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)
		asked := request(t, d.book, a)
		type view struct {
			Args      json.RawMessage
			ArgsBytes int
			Preview   string
		}
		var list struct{ Approvals []view }
		var one view
		if err := json.Unmarshal(d.do("GET", "/approvals/", "").Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		if v := list.Approvals[0]; v.Args != nil || v.ArgsBytes != len(a.Call.Args) || len(v.Preview) < 4000 || len(v.Preview) > 4200 {
			t.Errorf("listed: %d bytes, preview of %d", v.ArgsBytes, len(v.Preview))
		}
		if err := json.Unmarshal(d.do("GET", "/approvals/"+string(asked.ID), "").Body.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		if whole := string(one.Args) == string(a.Call.Args); whole != (size < 256<<10) || whole == (one.Preview != "") {
			t.Errorf("%d bytes: shown %d, preview of %d", size, len(one.Args), len(one.Preview))
		}
	}
}

func TestTheHostSaysWhoDecided(t *testing.T) {
	d := newDesk(t, &gates.HandlerOptions{By: func(r *http.Request) string { return r.Header.Get("X-User") }})
	for user, want := range map[string]string{"dora": "dora", "": "http"} {
		a := request(t, d.book, refund())
		d.want(d.do("POST", "/approvals/"+string(a.ID), `{"verdict":"allow","by":"boss"}`, "X-User", user), 200)
		got, err := d.book.Find(t.Context(), a.ID)
		if err != nil || got.Decision.By != want {
			t.Errorf("%q: got %q, %v", user, got.Decision.By, err)
		}
		if err := consume(t, d.store, d.book, a.ID, refund()); err != nil {
			t.Error(err)
		}
	}
}

func TestOneOfTwoOperatorsWins(t *testing.T) {
	d := newDesk(t, nil)
	a := request(t, d.book, refund())
	var codes [2]int
	var group sync.WaitGroup
	for i, verdict := range []string{"allow", "deny"} {
		group.Go(func() {
			codes[i] = d.do("POST", "/approvals/"+string(a.ID), `{"verdict":"`+verdict+`"}`).Code
		})
	}
	group.Wait()
	if codes != [2]int{200, 409} && codes != [2]int{409, 200} {
		t.Errorf("got %v", codes)
	}
}

func TestAHandlerWithoutAStoreSaysSo(t *testing.T) {
	d := newDesk(t, nil)
	d.store.Close()
	d.want(d.do("GET", "/approvals/", ""), 503)
	d.want(d.do("POST", "/approvals/ap-x", `{"verdict":"allow"}`), 503)
}
