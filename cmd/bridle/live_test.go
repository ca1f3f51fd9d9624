package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// desk is a harness that runs, and a shell that asks it.
type desk struct {
	shell
	t    *testing.T
	h    *harness.AgentHarness
	shop *inmemory.Provider
	turn *harness.Turn
}

// newDesk has a turn run that wants to pay, and waits for an approval.
func newDesk(t *testing.T, tty bool, in string) *desk {
	t.Helper()
	s := store.Memory()
	t.Cleanup(func() { s.Close() })
	d := &desk{t: t, shop: inmemory.New(inmemory.Options{Surface: "web", Operations: map[string]inmemory.Operation{
		"look": inmemory.Reply("open"), "pay": inmemory.Reply("paid")}})}
	var err error
	d.h, err = harness.New(harness.Config{Name: "clerk", Store: s, Approver: gates.Elsewhere(),
		Model:       scripted.New(scripted.CallTool("shop_look", nil), scripted.CallTool("shop_pay", map[string]int{"amount": 7}), scripted.Say("done")),
		Connections: connection.Set{"shop": {Provider: d.shop, Policy: connection.Policy{Approve: []string{"pay"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.h.Close(t.Context()) })
	d.shell = shell{t: t, tty: tty, in: in, env: map[string]string{"BRIDLE_SOCKET": answering(t, d.h.Admin()), "NO_COLOR": "1"}}
	if d.turn, err = d.h.Execute(t.Context(), "pay", &harness.ExecuteOptions{Thread: "ops"}); err != nil {
		t.Fatal(err)
	}
	for ev, err := range d.h.Events(t.Context(), "") {
		if err != nil || ev.Type == event.ApprovalRequested {
			return d
		}
	}
	return d
}

// only is the one id that a list has.
func (d *desk) only(args ...string) string {
	d.t.Helper()
	id := strings.TrimSpace(d.want(exitDone, append(args, "-o", "id")...).out)
	if id == "" || strings.Contains(id, "\n") {
		d.t.Fatalf("%v lists %q", args, id)
	}
	return id
}

func (d *desk) paid() int {
	n := 0
	for _, c := range d.shop.Calls() {
		if c.Op == "pay" {
			n++
		}
	}
	return n
}

func TestALiveHarnessIsLookedInto(t *testing.T) {
	d := newDesk(t, false, "")
	id := d.only("runs", "-state", "running")
	asked := d.only("approvals")
	for _, args := range [][]string{{"runs"}, {"show", id}, {"show", id, "-json"}} {
		if got := d.want(exitDone, args...); !strings.Contains(got.out, asked) {
			t.Errorf("%v does not tell what it waits for: %s", args, got.out)
		}
	}
	var shown struct {
		Execution struct {
			State string
			Turn  bool
		}
		Steps []struct{ Op, State, Key string }
	}
	if err := json.Unmarshal([]byte(d.want(exitDone, "show", id[:8], "-json").out), &shown); err != nil || shown.Execution.State != "running" ||
		!shown.Execution.Turn || len(shown.Steps) == 0 {
		t.Errorf("%+v, %v", shown, err)
	}
	if got := d.want(exitDone, "show", id).out; !strings.Contains(got, "shop look") {
		t.Errorf("the timeline is %s", got)
	}
	var exported struct {
		Input []struct {
			Message string
			Items   []model.Item
		}
	}
	if err := json.Unmarshal([]byte(d.want(exitDone, "export", id).out), &exported); err != nil || len(exported.Input) != 1 ||
		exported.Input[0].Message != string(d.turn.Message()) || len(exported.Input[0].Items) != 1 || exported.Input[0].Items[0].Text() != "pay" {
		t.Errorf("the message is exported as %+v, %v", exported, err)
	}
	if got := d.want(exitDone, "export", id, "-json").out; !json.Valid([]byte(got)) || strings.Contains(got, id+":tool") || !strings.Contains(got, "open") {
		t.Errorf("exported %s", got)
	}
	d.want(exitMissing, "show", "none")
	if got := d.want(exitDone, "approvals").out; strings.Count(got, "\n") != 2 || !strings.Contains(got, "shop pay") {
		t.Errorf("approvals %s", got)
	}
	if got := d.want(exitDone, "approvals", "-o", "wide").out; !strings.Contains(got, `{"amount":7}`) {
		t.Errorf("approvals %s", got)
	}
}

func TestAnApprovalIsGivenByWhoSawIt(t *testing.T) {
	d := newDesk(t, false, "")
	id := d.only("approvals")
	wantError(t, d.want(exitRefused, "approve", id, "-json"), "not_confirmed")
	wantError(t, d.want(exitRefused, "approve", id, "-digest", "00000000", "-json"), "approval_closed")
	var a approval
	if err := json.Unmarshal([]byte(d.want(exitDone, "approvals", "-o", "jsonl").out), &a); err != nil {
		t.Fatal(err)
	}
	d.want(exitRefused, "approve", id, "-digest", a.Digest[:4])
	if n := d.paid(); n != 0 {
		t.Fatalf("paid %d times before anybody agreed", n)
	}
	if got := d.want(exitDone, "approve", id[:10], "-digest", a.Digest[:12], "-reason", "fine").out; got != "allowed "+id+" shop pay by dora\n" {
		t.Errorf("said %q", got)
	}
	if _, err := d.turn.Wait(t.Context()); err != nil || d.paid() != 1 {
		t.Errorf("paid %d times, %v", d.paid(), err)
	}
	got := d.want(exitRefused, "deny", id)
	if !strings.Contains(got.err, "allow by dora") {
		t.Errorf("decided twice: %s", got.err)
	}
	d.want(exitMissing, "deny", "ap-none")
	if got := d.want(exitDone, "approvals"); got.out != "" {
		t.Errorf("still waits: %s", got.out)
	}
}

func TestAPersonIsShownWhatTheyAllow(t *testing.T) {
	for in, code := range map[string]int{"y\n": exitDone, "yes\n": exitDone, "\n": exitRefused, "n\n": exitRefused, "": exitRefused, "yess\n": exitRefused} {
		d := newDesk(t, true, in)
		id := d.only("approvals")
		got := d.want(code, "approve", id)
		for _, part := range []string{"shop pay", `{"amount":7}`, "web-1", "Allow this call once? [y/N]"} {
			if !strings.Contains(got.err, part) {
				t.Errorf("%q: not shown %s: %s", in, part, got.err)
			}
		}
		if code == exitRefused {
			if d.only("approvals") != id || d.paid() != 0 {
				t.Errorf("%q: it does not wait any more", in)
			}
			continue
		}
		if _, err := d.turn.Wait(t.Context()); err != nil || d.paid() != 1 {
			t.Errorf("%q: paid %d times, %v", in, d.paid(), err)
		}
	}
}

func TestADenialReachesTheModel(t *testing.T) {
	d := newDesk(t, false, "")
	var decided approval
	out := d.want(exitDone, "deny", d.only("approvals"), "-reason", "wrong amount", "-by", "erin", "-json").out
	if err := json.Unmarshal([]byte(out), &decided); err != nil || decided.Decision.By != "erin" || decided.Decision.Reason != "wrong amount" {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := d.turn.Wait(t.Context()); err != nil || d.paid() != 0 {
		t.Errorf("paid %d times, %v", d.paid(), err)
	}
}

// TestADoubtIsAnsweredByWhoLooked has a run die while the shop works on a
// payment, and somebody who looked say what became of it.
func TestADoubtIsAnsweredByWhoLooked(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	reached := make(chan struct{})
	shop := inmemory.New(inmemory.Options{Surface: "web", Operations: map[string]inmemory.Operation{
		"pay": inmemory.Func(func(ctx context.Context, _ *inmemory.Call, _ struct{}) (string, error) {
			close(reached)
			<-ctx.Done()
			return "", ctx.Err()
		})}})
	config := harness.Config{Name: "clerk", Store: s, Approver: gates.Elsewhere(), Connections: connection.Set{"shop": {Provider: shop}}}
	start := func() (*harness.AgentHarness, chan string) {
		h, err := harness.New(config)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan string, 1)
		go func() {
			out, _ := h.Run(context.WithoutCancel(t.Context()), steps.Call{ID: "pay", Connection: "shop", Op: "pay"}, nil,
				&harness.RunOptions{Execution: "order"})
			done <- string(out)
		}()
		return h, done
	}
	h, done := start()
	<-reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	h, done = start()
	defer h.Close(t.Context())
	for ev, err := range h.Events(t.Context(), "") {
		if err != nil || ev.Type == event.ApprovalRequested {
			break
		}
	}
	d := &desk{t: t, shell: shell{t: t, env: map[string]string{"BRIDLE_SOCKET": answering(t, h.Admin())}}}
	id := d.only("approvals")
	if got := d.want(exitDone, "approvals").out; !strings.Contains(got, "it may have happened before") {
		t.Errorf("the doubt is not told: %s", got)
	}
	d.want(exitUsage, "happened", id, "-output", "{")
	d.want(exitDone, "happened", id, "-output", `"paid"`)
	if out := <-done; out != `"paid"` || len(shop.Calls()) != 1 {
		t.Errorf("came to %s after %d calls", out, len(shop.Calls()))
	}
}

// TestATaskOfARunThatDiedIsShownAndAwaited has a run die while the shop works on
// what became a task, which goes on without it.
func TestATaskOfARunThatDiedIsShownAndAwaited(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	ready := make(chan struct{})
	pay := inmemory.Func(func(ctx context.Context, _ *inmemory.Call, _ struct{}) (string, error) {
		select {
		case <-ready:
			return "paid", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}).With(provider.Facts{Long: true, Effects: true})
	shop := inmemory.New(inmemory.Options{Surface: "web", Operations: map[string]inmemory.Operation{"pay": pay}})
	run := func(h *harness.AgentHarness) (string, error) {
		out, err := h.Run(context.WithoutCancel(t.Context()), steps.Call{ID: "pay", Connection: "shop", Op: "pay"}, nil,
			&harness.RunOptions{Execution: "order"})
		return string(out), err
	}
	start := func() (*harness.AgentHarness, shell) {
		h, err := harness.New(harness.Config{Name: "clerk", Store: s, Connections: connection.Set{"shop": {Provider: shop}}})
		if err != nil {
			t.Fatal(err)
		}
		return h, shell{t: t, env: map[string]string{"BRIDLE_SOCKET": answering(t, h.Admin())}}
	}
	h, sh := start()
	changed, stop := s.Changed("ledger/entries", "")
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := run(h)
		done <- err
	}()
	for !strings.Contains(sh.run("show", "order", "-json").out, `"task": "web-1-task-1"`) {
		<-changed
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Fatal("the run ended well")
	}
	h, sh = start()
	defer h.Close(t.Context())
	if got := sh.want(exitDone, "show", "order").out; !strings.Contains(got, "unknown") || !strings.Contains(got, "task web-1-task-1") {
		t.Errorf("the task is not told: %s", got)
	}
	close(ready)
	if out, err := run(h); err != nil || out != `"paid"` || len(shop.Calls()) != 1 {
		t.Errorf("came to %s, %v, after %d calls", out, err, len(shop.Calls()))
	}
}

func TestOnlyADoubtCanHaveHappened(t *testing.T) {
	d := newDesk(t, false, "")
	wantError(t, d.want(exitRefused, "happened", d.only("approvals"), "-json"), "not_in_doubt")
}

func TestAbortEndsATurn(t *testing.T) {
	d := newDesk(t, false, "")
	id := d.only("runs")
	if got := d.want(exitDone, "abort", "ops", "-reason", "enough"); got.out != "aborted "+id+" on thread ops\n" {
		t.Errorf("said %q", got.out)
	}
	if _, err := d.turn.Wait(t.Context()); err == nil {
		t.Error("the turn ended well")
	}
	wantMissing := d.want(exitMissing, "abort", "ops", "-json")
	var f failure
	if err := json.Unmarshal([]byte(wantMissing.err), &f); err != nil || f.Code != "not_found" {
		t.Errorf("again: %s", wantMissing.err)
	}
	if got := d.only("runs", "-state", "cancelled"); got != id {
		t.Errorf("cancelled is %s", got)
	}
}

func TestAHarnessWithoutARecordSaysSo(t *testing.T) {
	h, err := harness.New(harness.Config{Name: "clerk"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	wantError(t, shell{t: t}.want(exitUnreachable, "runs", "-json", "-socket", answering(t, h.Admin())), "no_ledger")
}

func TestHostileApprovalsForgeNoScreen(t *testing.T) {
	for _, text := range hostile() {
		if text = strings.ToValidUTF8(text, ""); text == "" {
			continue
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		q := string(quoted)
		one := `{"id":"ap-1","state":"pending","connection":` + q + `,"op":` + q + `,"title":` + q + `,"description":` + q + `,"args":{` + q + `:` + q + `},` +
			`"thread":` + q + `,"execution":` + q + `,"step":` + q + `,"reason":` + q + `,"question":{"message":` + q + `,"url":` + q + `,"schema":` + q + `},` +
			`"identity":{"instance":` + q + `},"refIds":[` + q + `],"digest":"0123456789abcdef","expires":"2000-01-01T02:01:00Z"}`
		path := answering(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/approvals/") {
				_, _ = w.Write([]byte(`{"approvals":[` + one + `]}`))
				return
			}
			_, _ = w.Write([]byte(one))
		}))
		s := shell{t: t, tty: true, in: "n\n", env: map[string]string{"NO_COLOR": "1"}}
		got := s.want(exitRefused, "approve", "ap-1", "-socket", path)
		wantTame(t, "the screen", got.err, 13)
		wantTame(t, "the list", s.want(exitDone, "approvals", "-socket", path, "-o", "wide").out, 2)
		wantTame(t, "the document", s.want(exitDone, "approvals", "-socket", path, "-json").out, 0)
	}
}
