package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
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
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
)

// knowing is a configuration of a harness that knows the credential.
func knowing(c harness.Config, opts inmemory.Options) harness.Config {
	opts.Credentials = append(opts.Credentials, credential)
	c.Connections = connection.Set{"shop": {Provider: inmemory.New(opts), ModelSecrets: map[secrets.Ref]string{"pin": "echo.text"}}}
	return c
}

// clean fails if a value shows the credential, or a good part of it.
func clean(t *testing.T, where string, value any) {
	t.Helper()
	raw, _ := json.Marshal(value)
	for _, text := range []string{fmt.Sprintf("%+v", value), string(raw)} {
		if strings.Contains(text, credential) || strings.Contains(text, credential[:12]) {
			t.Errorf("%s shows it: %.300s", where, text)
		}
	}
}

// seen is everything that a turn shows.
func seen(t *testing.T, turn *harness.Turn) {
	t.Helper()
	resp, err := turn.Wait(t.Context())
	clean(t, "response", resp)
	clean(t, "error", err)
	for _, ev := range collect(t, turn) {
		clean(t, "event "+string(ev.Type), ev)
		if ev.Item != nil {
			clean(t, "item", *ev.Item)
		}
	}
}

func TestWhatAModelRepeatsGoesNowhere(t *testing.T) {
	args, err := json.Marshal(map[string]string{"text": credential})
	if err != nil {
		t.Fatal(err)
	}
	said := model.Text(model.Assistant, "it is "+credential)
	said.ID, said.Data = "id "+credential, json.RawMessage(`"`+credential+`"`)
	picture := model.Item{Type: model.Message, Role: model.Assistant, Parts: []model.Part{
		{Type: model.PartImage, Data: []byte("\x00" + credential), MIMEType: "image/png"}, {Type: model.PartFile, URL: "https://x/?" + credential, Name: credential}}}
	m := scripted.New(
		scripted.Reply(&model.Reply{ID: credential, Stop: model.StopTools, Items: []model.Item{said, picture,
			model.Call(credential, "shop_echo", args), model.Call("", "none "+credential, nil)}}),
		scripted.Say("bye "+credential))
	shop := inmemory.Options{Operations: map[string]inmemory.Operation{"echo": {
		Run: func(_ context.Context, c *inmemory.Call) (*provider.CallResult, error) {
			clean(t, "arguments", string(c.Args()))
			return &provider.CallResult{Value: c.Args()}, nil
		}}}}
	h := open(t, knowing(harness.Config{Model: m, Instructions: "know " + credential}, shop))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	turn := say(t, h, "my word is "+credential, harness.ExecuteOptions{})
	seen(t, turn)
	for _, req := range m.Requests() {
		clean(t, "request", req)
	}
	if len(m.Requests()) != 2 {
		t.Errorf("the model was asked %d times", len(m.Requests()))
	}
}

// TestNoDeltaShowsAPartOfACredential streams one in pieces of every size.
func TestNoDeltaShowsAPartOfACredential(t *testing.T) {
	const before, after = "say s3cr3t-no, then ", " and so on"
	for size := 1; size < len(credential); size++ {
		m := talk(func(context.Context, *model.Request) iter.Seq2[model.Event, error] {
			return func(yield func(model.Event, error) bool) {
				for rest := before + credential + after; rest != ""; {
					n := min(size, len(rest))
					yield(model.Event{Type: model.TextDelta, Text: rest[:n]}, nil)
					yield(model.Event{Type: model.ReasoningDelta, Text: rest[:n]}, nil)
					rest = rest[n:]
				}
				yield(model.Finish(&model.Reply{Items: []model.Item{model.Text(model.Assistant, before+credential+after)}}), nil)
			}
		})
		h := open(t, knowing(harness.Config{Model: m}, inmemory.Options{}))
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		turn := say(t, h, "go", harness.ExecuteOptions{})
		got := map[event.Type]string{}
		for _, ev := range collect(t, turn) {
			got[ev.Type] += ev.Text
		}
		for _, kind := range []event.Type{event.TextDelta, event.ReasoningDelta} {
			if want := before + "<redacted>" + after; got[kind] != want {
				t.Errorf("pieces of %d: %s are %q, want %q", size, kind, got[kind], want)
			}
		}
	}
}

func TestAStreamThatBreaksShowsWhatItHeldBack(t *testing.T) {
	m := talk(func(context.Context, *model.Request) iter.Seq2[model.Event, error] {
		return func(yield func(model.Event, error) bool) {
			yield(model.Delta("well, "+credential[:6]), nil)
			yield(model.Event{}, errors.New("broken"))
		}
	})
	h := open(t, knowing(harness.Config{}, inmemory.Options{}))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Run(t.Context(), steps.CallModel{ID: "m", Model: m}, "go", &harness.RunOptions{Execution: "x"})
	got := ""
	for _, ev := range kept(t, h) {
		if ev.Type == event.TextDelta {
			got += ev.Text
		}
	}
	if want := strings.Repeat("well, "+credential[:6], 3); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// kept are the events of a harness, which is closed.
func kept(t *testing.T, h *harness.AgentHarness) []event.Event {
	t.Helper()
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all []event.Event
	for ev, err := range h.Events(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ev)
	}
	return all
}

// TestASecretThatIsLearntLateIsTakenOutOfWhatWasSaid has it in the conversation and
// in a description before it is first used.
func TestASecretThatIsLearntLateIsTakenOutOfWhatWasSaid(t *testing.T) {
	const late = "l4te-s3cret"
	m := scripted.New(
		scripted.CallTool("shop_echo", map[string]any{"text": map[string]string{"$secret": "pin"}}),
		scripted.Say("done"), scripted.Say("again"))
	echo := inmemory.Reply("fine").Describe("knows " + late)
	h := open(t, knowing(harness.Config{Model: m, Secrets: secrets.Map{"pin": secrets.NewValue(late)}},
		inmemory.Options{Operations: map[string]inmemory.Operation{"echo": echo}}))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"it is " + late, "and now?"} {
		if _, err := say(t, h, text, harness.ExecuteOptions{Thread: "t"}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, req := range m.Requests() {
		raw, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		if there := strings.Contains(string(raw), late); there != (i == 0) {
			t.Errorf("request %d: there %t: %s", i, there, raw)
		}
	}
	manifest, err := h.Manifest(t.Context(), "shop")
	if err != nil || strings.Contains(manifest.Operations[0].Description, late) {
		t.Errorf("manifest: %+v, %v", manifest, err)
	}
}

func TestEventsOfAnApplicationAreRedactedWhateverTheyHold(t *testing.T) {
	h := open(t, knowing(harness.Config{}, inmemory.Options{}))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := h.Run(t.Context(), steps.Func("f", func(c steps.Context, _ any) (map[string]string, error) {
		return map[string]string{credential: credential}, nil
	}), nil, nil)
	clean(t, "output", string(out))
	if err != nil {
		t.Error(err)
	}
	_, err = h.Run(t.Context(), steps.Func("f", func(c steps.Context, _ any) (any, error) {
		panic(strings.Repeat("x", 105) + credential)
	}), nil, nil)
	clean(t, "panic", err)
	for _, ev := range kept(t, h) {
		clean(t, "event", ev)
	}
}

func TestALogAndAMeterOfTheApplicationCostNothing(t *testing.T) {
	var log strings.Builder
	h := open(t, knowing(harness.Config{Model: scripted.New(scripted.Say("fine")), Meter: panicking{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, inmemory.Options{}))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := answers(t, h); err != nil {
		t.Errorf("a meter that panics costs the turn: %v", err)
	}
	clean(t, "log", log.String())
	if !strings.Contains(log.String(), "the meter") {
		t.Errorf("nobody is told: %q", log.String())
	}
}

// panicking is a meter that does.
type panicking struct{}

func (panicking) Record(context.Context, gates.Usage) { panic(credential) }
