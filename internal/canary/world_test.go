package canary_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// world is a harness with everything around it.
type world struct {
	t     *testing.T
	vault *vault
	h     *harness.AgentHarness
	web   *web
	shop  *inmemory.Provider
	model *scripted.Model
	store store.Store

	dir    string // of the store's file, blobs and what the server over stdio received
	log    *lines
	lines  bytes.Buffer // of the audit
	tracer *tracer
	meter  *meter

	told    []told   // what the application got back, in order
	listed  []string // what the approvals handler answered
	scripts []*scripted.Model
}

// told is something that an application got from a harness.
type told struct {
	what  string
	value any
	err   error
}

// resolver has the secrets of an application, but for two.
func (w *world) resolver() secrets.Resolver {
	v := w.vault
	bad := secrets.ResolverFunc(func(_ context.Context, u secrets.Use) (secrets.Value, error) {
		if u.Ref == "app.worse" {
			panic(v.long("resolver panic"))
		}
		return secrets.Value{}, errSaid(v.says("resolver error"))
	})
	return secrets.First(secrets.Map{
		"app.password": secrets.NewValue(w.vault.of("resolver")), "app.pin": secrets.NewValue(w.vault.of("short")),
		"app.late": secrets.NewValue(w.vault.of("late description")),
	}, bad)
}

func newWorld(t *testing.T, m *scripted.Model, v *vault) *world {
	w := &world{t: t, vault: v, model: m, scripts: []*scripted.Model{m}, dir: t.TempDir(), log: &lines{}, tracer: &tracer{},
		web: newWeb(t, v), shop: newShop(v), meter: &meter{vault: v, Totals: gates.NewTotals()}}
	file, err := bolt.Open(filepath.Join(w.dir, "store.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := refs.DirBlobs(filepath.Join(w.dir, "blobs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.store = file
	log := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.h, err = harness.New(harness.Config{
		Name: "canary", Model: m, Connections: w.connections(), Store: file, Blobs: blobs, Secrets: w.resolver(),
		Hooks: hooks(v), Approver: approver(v), Meter: w.meter, Tracer: w.tracer, Logger: log, Tools: w.tools(),
		Budget: gates.Budget{Calls: 1000, Tokens: 1 << 20}, Triggers: listeners(v),
		Audit: gates.Audit{Sinks: []gates.Sink{gates.JSONLines(&w.lines), gates.StoreSink(file), gates.SlogSink(log), sink{v}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.h.Close(context.WithoutCancel(t.Context())); file.Close(); blobs.Close() })
	return w
}

func (w *world) connections() connection.Set {
	v := w.vault
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	var env []string
	for name, value := range v.keptBy(byEnv) {
		env = append(env, variable(name)+"="+value)
	}
	return connection.Set{
		"web": {Provider: w.web.header(), Pin: true,
			ModelSecrets: map[secrets.Ref]string{"app.password": "login.password", "app.late": "echo.text"}},
		"url":   {Provider: w.web.userinfo("/userinfo", v.of("user"), v.of("password"), v.of("query"))},
		"local": {Provider: mcp.Stdio([]string{exe, stdioArg, w.received()}, &mcp.StdioOptions{Env: env, Grace: 200 * time.Millisecond})},
		"shop": {Provider: w.shop, Policy: connection.Policy{Approve: []string{"pay", "refund", "ship", "gift", "later"}},
			ModelSecrets: map[secrets.Ref]string{"app.pin": "unlock.pin"}},
		"flaky": {Provider: &flaky{vault: v}},
		"down":  {Provider: w.web.userinfo("/refuse", "someone", v.of("refusal"), "none")},
	}
}

// received is the file with what the server over stdio got.
func (w *world) received() string { return filepath.Join(w.dir, "received") }

type nothing struct{}

func (w *world) tools() []steps.Tool {
	v := w.vault
	return []steps.Tool{
		steps.NewTool("panics", "Knows "+v.of("tool description"), func(steps.Context, nothing) (string, error) { panic(v.long("tool panic")) }),
		steps.NewTool("fails", "Fails.", func(steps.Context, nothing) (string, error) { return "", errSaid(v.says("tool error")) }),
		steps.NewTool("answers", "Answers.", func(steps.Context, nothing) (map[string]string, error) {
			return map[string]string{v.of("tool result"): v.says("tool result")}, nil
		}),
	}
}

// keep notes what the application was told.
func (w *world) keep(what string, value any, err error) {
	w.told = append(w.told, told{what, value, err})
}

// run runs a step and keeps what it came to.
func (w *world) run(s steps.Step) (json.RawMessage, error) {
	w.t.Helper()
	out, err := w.h.Run(w.t.Context(), s, nil, nil)
	what := fmt.Sprintf("step %s", s.StepID())
	if c, ok := s.(steps.Call); ok {
		what = fmt.Sprintf("call of %s.%s", c.Connection, c.Op)
	}
	w.keep(what, out, err)
	return out, err
}

func (w *world) call(name connection.Name, op string, args any) (json.RawMessage, error) {
	w.t.Helper()
	return w.run(steps.Call{ID: "call", Connection: name, Op: op, Args: args})
}

// mustCall is call where a failure means that the scenario did not happen.
func (w *world) mustCall(name connection.Name, op string, args any) json.RawMessage {
	w.t.Helper()
	out, err := w.call(name, op, args)
	if err != nil {
		w.t.Errorf("%s.%s: %v", name, op, err)
	}
	return out
}

// mustFail is call where success means that the scenario did not happen.
func (w *world) mustFail(name connection.Name, op string, args any) {
	w.t.Helper()
	if out, err := w.call(name, op, args); err == nil {
		w.t.Errorf("%s.%s succeeded: %s", name, op, out)
	}
}

// say sends a message and keeps the answer.
func (w *world) say(text string) (*harness.Response, error) {
	w.t.Helper()
	turn, err := w.h.Execute(w.t.Context(), text, &harness.ExecuteOptions{Thread: "talk"})
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := turn.Wait(w.t.Context())
	w.keep("turn", resp, err)
	return resp, err
}

// await waits for something that happens to a connection.
func (w *world) await(what event.Type, name string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	for ev, err := range w.h.Events(ctx, "") {
		if err != nil {
			w.t.Fatalf("waiting for %s of %s: %v", what, name, err)
		}
		if ev.Type == what && ev.Connection == name {
			return
		}
	}
}

// look keeps what can be seen at this moment.
func (w *world) look() {
	w.t.Helper()
	w.keep("status", w.h.Status(), nil)
	for _, name := range []connection.Name{"web", "url", "local", "shop"} {
		m, err := w.h.Manifest(w.t.Context(), name)
		if err != nil {
			w.t.Fatalf("manifest of %s: %v", name, err)
		}
		w.keep("manifest of "+string(name), m, nil)
	}
	for c, err := range w.h.Pins().Changed(w.t.Context()) {
		w.keep("changed definition", c, err)
		w.keep("changed definition in words", c.String(), nil)
	}
}

// awaitChange waits until the harness has noticed a changed definition.
func (w *world) awaitChange() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	for ev, err := range w.h.Events(ctx, "") {
		if err != nil {
			w.t.Fatalf("waiting for a changed definition: %v", err)
		}
		if ev.Type == event.Warning && strings.Contains(ev.Text, "find of connection web is not what it was") {
			return
		}
	}
}
