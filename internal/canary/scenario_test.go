package canary_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
)

type object = map[string]any

// script is what the model does on the thread "talk", two turns long.
func script(v *vault) *scripted.Model {
	password := object{"$secret": "app.password"}
	return scripted.New(
		scripted.CallTools(
			scripted.Call{Name: "web_login", Args: object{"user": "bob", "password": password}},
			scripted.Call{Name: "shop_unlock", Args: object{"pin": object{"$secret": "app.pin"}}},
			scripted.Call{Name: "web_echo", Args: object{"text": object{"$secret": "app.late"}}},
			// Not granted there.
			scripted.Call{Name: "local_echo", Args: object{"text": password}},
			scripted.Call{Name: "web_login", Args: object{"user": password, "password": "x"}},
			scripted.Call{Name: "shop_echo", Args: object{"deep": []any{password}}},
		),
		scripted.CallTools(
			scripted.Call{Name: "web_bait"}, scripted.Call{Name: "web_find"}, scripted.Call{Name: "web_fail"}, scripted.Call{Name: "web_break"}, scripted.Call{Name: "web_blame"},
			scripted.Call{Name: "web_work"}, scripted.Call{Name: "web_show"}, scripted.Call{Name: "web_long"}, scripted.Call{Name: "web_ask"},
		),
		scripted.CallTools(
			scripted.Call{Name: "panics"}, scripted.Call{Name: "fails"}, scripted.Call{Name: "answers"},
			scripted.Call{Name: "shop_pay"}, scripted.Call{Name: "shop_gift"}, scripted.Call{Name: "shop_explode"}, scripted.Call{Name: "shop_photo"},
			scripted.Call{Name: "read_blob", Args: object{"blob": "blob-1", "offset": 32<<10 - 60, "limit": 30}},
			scripted.Call{Name: "read_blob", Args: object{"blob": "blob-1", "offset": 30 << 10}},
		),
		// What a tool said, copied as it is and as text.
		scripted.Respond(func(req *model.Request) scripted.Round {
			for _, it := range req.Items {
				if it.Type == model.ToolResult && it.Name == "web_bait" {
					return scripted.CallTools(
						scripted.Call{Name: "local_echo", Args: object{"text": json.RawMessage(it.Text())}},
						scripted.Call{Name: "shop_echo", Args: object{"text": it.Text()}})
				}
			}
			return scripted.Fail(errors.New("the bait is not in the conversation"))
		}),
		scripted.Reply(&model.Reply{Stop: model.StopTools, Items: []model.Item{
			{Type: model.Reasoning, Parts: []model.Part{{Type: model.PartText, Text: v.says("model text")}}, Data: json.RawMessage(quoted(v.says("model data")))},
			model.Text(model.Assistant, v.says("model text")),
			model.Call("call with "+v.of("model arguments"), "local_echo", json.RawMessage(`{"text":`+quoted(v.says("model arguments"))+`}`)),
			model.Call("", "no such tool "+v.of("model arguments"), json.RawMessage(`{}`)),
		}}),
		scripted.Say(v.says("model text")),
		scripted.Say("You are welcome."),
		scripted.Say("Noted."), // about an event
	)
}

// play is the busy scenario.
func (w *world) play() {
	w.start()
	w.look()
	w.talk()
	w.steps()
	w.models()
	w.approvals()
	w.triggers()
	w.reconnect()
	w.look()
	if err := w.h.Close(w.t.Context()); err != nil {
		w.keep("close", nil, err)
	}
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) start() {
	if err := w.h.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{"web", "url", "local", "shop"} {
		w.await(event.ConnectionReady, name)
	}
	w.await(event.ConnectionUnavailable, "down")
	w.mustFail("down", "anything", nil)
}

func (w *world) talk() {
	v := w.vault
	if _, err := w.say("My words are " + v.of("message")); err != nil {
		w.t.Errorf("first turn: %v", err)
	}
	if _, err := w.say("Thank you."); err != nil {
		w.t.Errorf("second turn: %v", err)
	}
}

func (w *world) steps() {
	v := w.vault
	w.mustCall("web", "login", object{"user": "bob", "password": secrets.Ref("app.password")})
	w.mustCall("shop", "unlock", object{"pin": secrets.Ref("app.pin")})
	w.mustCall("shop", "unlock", object{"text": object{"$secret": "app.password"}}) // data, written without its type
	w.mustFail("shop", "unlock", object{"text": secrets.Ref("app.bad")})
	w.mustFail("shop", "unlock", object{"text": secrets.Ref("app.worse")})
	w.mustCall("web", "find", nil)
	w.mustCall("url", "echo", object{"text": "hello"})
	w.mustCall("local", "env", nil)
	w.mustCall("web", "note:///one", nil)
	w.mustCall("web", "work", nil)
	w.mustCall("web", "show", nil)
	for _, op := range []string{"fail", "break", "blame"} {
		w.mustFail("web", op, nil)
	}
	for _, op := range []string{"explode", "touchy", "forbidden"} {
		w.mustFail("shop", op, nil)
	}
	for _, op := range []string{"loose", "lax", "unmetered", "unaudited", "unkept"} {
		w.mustCall("shop", op, nil)
	}
	w.call("shop", "photo", nil)
	if _, err := w.run(steps.Wait{ID: "paid", Connection: "shop", Event: "order.paid", Timeout: 20 * time.Second,
		Around: steps.Call{ID: "emit", Connection: "shop", Op: "emit"}}); err != nil {
		w.t.Errorf("the wait: %v", err)
	}
	w.run(steps.Wait{ID: "unpaid", Connection: "shop", Event: "order.paid", Timeout: 20 * time.Second,
		Filter: func(provider.Event) bool { panic(v.long("filter panic")) }, Around: steps.Call{ID: "emit", Connection: "shop", Op: "emit"}})
	for _, tool := range w.tools() {
		w.run(steps.InvokeTool{ID: "tool", Tool: tool.(*steps.FuncTool)})
	}
	w.run(steps.Func("go", func(steps.Context, any) (any, error) { return nil, errSaid(v.says("step error")) }))
	w.run(steps.Func("go", func(steps.Context, any) (any, error) { panic(v.long("step panic")) }))
	w.run(steps.Func("go", func(steps.Context, any) (any, error) {
		return object{v.of("step error"): v.says("step error")}, nil
	}))
	w.mustCall("web", "grow", nil)
	w.mustCall("web", "echo", object{"text": secrets.Ref("app.late")})
	w.mustCall("web", "change", nil)
	w.awaitChange()
	w.mustFail("web", "find", nil)
}

// models asks models that fail, and such as stream in small pieces.
func (w *world) models() {
	v := w.vault
	text := v.says("model text")
	answer := &model.Reply{Items: []model.Item{model.Text(model.Assistant, text)}}
	asks := scripted.New(scripted.Say("fine"))
	w.scripts = append(w.scripts, asks)
	for _, s := range []steps.CallModel{
		{ID: "ask", Model: asks, Instructions: v.says("instruction")},
		{ID: "text", Model: inPieces(text, model.TextDelta, answer)},
		{ID: "thought", Model: inPieces(text, model.ReasoningDelta, answer)},
		{ID: "error", Model: modelFunc(func(yield func(model.Event, error) bool) { yield(model.Event{}, errSaid(v.says("model error"))) })},
		{ID: "panic", Model: modelFunc(func(func(model.Event, error) bool) { panic(v.long("model panic")) })},
		{ID: "refusal", Model: modelFunc(func(yield func(model.Event, error) bool) {
			yield(model.Finish(&model.Reply{Stop: model.StopRefused, Items: []model.Item{model.Text(model.Assistant, v.long("model text"))}}), nil)
		})},
	} {
		out, err := w.h.Run(w.t.Context(), s, "Say something about "+v.of("message"), nil)
		w.keep("model step "+string(s.ID), out, err)
	}
}

// approvals goes through every way in which somebody decides.
func (w *world) approvals() {
	v := w.vault
	w.mustCall("shop", "pay", object{"card": v.of("approved arguments")})
	for _, op := range []string{"refund", "ship", "gift"} {
		w.mustFail("shop", op, nil)
	}
	server := httptest.NewServer(gates.NewHandler(w.h.Approvals(), "token", nil))
	defer server.Close()
	done := make(chan error, 1)
	go func() {
		_, err := w.h.Run(w.t.Context(), steps.Call{ID: "later", Connection: "shop", Op: "later", Args: object{"card": v.of("approved arguments")}}, nil, nil)
		done <- err
	}()
	var list struct{ Approvals []struct{ ID string } }
	for len(list.Approvals) == 0 {
		body := w.fetch(server.URL+"/approvals/", "")
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			w.t.Fatalf("%v: %s", err, body)
		}
	}
	at := server.URL + "/approvals/" + list.Approvals[0].ID
	w.fetch(at, "")
	w.fetch(at, `{"verdict":"allow","reason":`+quoted(across("", v.of("typed reason"))[:16<<10])+`,"by":`+quoted(v.says("typed reason"))+`}`)
	w.fetch(at, "")
	err := <-done
	w.keep("approved over HTTP", nil, err)
	if err != nil {
		w.t.Errorf("the call that was approved over HTTP: %v", err)
	}
}

// fetch asks the approvals handler and keeps its answer.
func (w *world) fetch(address, body string) string {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer token")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		w.t.Errorf("%s %s: %d %s", method, address, resp.StatusCode, text)
	}
	w.listed = append(w.listed, string(text))
	return string(text)
}

// reconnect loses connections and uses them again.
func (w *world) reconnect() {
	v := w.vault
	w.await(event.ConnectionReady, "flaky")
	w.mustFail("flaky", "lose", nil)
	w.shop.Replace()
	w.shop.Drop()
	w.await(event.ConnectionUnavailable, "shop")
	w.mustCall("shop", "plain", nil)
	v.of("last words")
	w.mustFail("local", "die", nil)
	w.await(event.ConnectionUnavailable, "local")
	w.look()
	if out := w.mustCall("local", "digest", nil); string(out) != quoted(digest(v.of("env"))) {
		w.t.Errorf("the server over stdio does not have its variable: %s", out)
	}
	turn, err := w.h.Run(w.t.Context(), steps.Func("cut", func(c steps.Context, _ any) (any, error) {
		ctx, cancel := context.WithCancelCause(c)
		cancel(errSaid(v.says("abort reason")))
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}), nil, nil)
	w.keep("aborted", turn, err)
}

// checkPlayed makes sure that the scenario did what it is for: servers got the
// secrets that are meant for them, and every source was used.
func (w *world) checkPlayed(t *testing.T) {
	v := w.vault
	for what, there := range map[string]bool{
		"basic authentication": arrived(w.web.got("/userinfo"), func(r received) bool {
			user, password, _ := (&http.Request{Header: r.header}).BasicAuth()
			return user == v.of("user") && password == v.of("password")
		}),
		"the query":        arrived(w.web.got("/userinfo"), func(r received) bool { return r.query.Get("key") == v.of("query") }),
		"the bearer token": arrived(w.web.got("/header"), func(r received) bool { return r.header.Get("Authorization") == "Bearer "+v.of("authorization") }),
		"the other header": arrived(w.web.got("/header"), func(r received) bool { return r.header.Get("X-Canary-api-key") == v.of("api key") }),
		"a line on stderr": v.of("stderr") != "" && strings.Contains(w.log.String(), `"line":"the variable is `),
		"a line on stdout": v.of("stdout") != "" && strings.Contains(w.log.String(), `listening with `),
	} {
		if !there {
			t.Errorf("%s did not arrive", what)
		}
	}
	logins, pins, others := 0, 0, 0
	for _, r := range w.web.got("/header") {
		var msg struct {
			Params struct {
				Name      string
				Arguments struct{ User, Password string }
			}
		}
		if json.Unmarshal(r.body, &msg) == nil && msg.Params.Name == "login" && msg.Params.Arguments.Password == v.of("resolver") {
			logins++
		}
		if msg.Params.Arguments.User == v.of("resolver") {
			others++
		}
	}
	for _, c := range w.shop.Calls() {
		var args struct{ Pin string }
		if json.Unmarshal(c.Args, &args) == nil && args.Pin == v.of("short") {
			pins++
		}
	}
	if others != 0 {
		t.Errorf("a secret was filled in where none is granted, %d times", others)
	}
	if logins != 2 || pins != 2 {
		t.Errorf("the secrets of the resolver arrived %d and %d times, want twice each: from a model and from a step", logins, pins)
	}
	for _, name := range v.unused() {
		t.Errorf("the scenario does not use the source %q", name)
	}
}

func arrived(all []received, as func(received) bool) bool { return slices.ContainsFunc(all, as) }
