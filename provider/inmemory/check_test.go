package inmemory_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

func TestCheckNamesTheField(t *testing.T) {
	type ops = map[string]inmemory.Operation
	raw := func(args, result string) inmemory.Operation {
		op := inmemory.Reply(nil)
		op.Args, op.Result = json.RawMessage(args), json.RawMessage(result)
		return op
	}
	read := func(context.Context, *provider.ReadRequest) (any, error) { return nil, nil }
	for _, tt := range []struct {
		name string
		opts inmemory.Options
		want []string
	}{
		{"nothing", inmemory.Options{}, nil},
		{"empty name", inmemory.Options{Operations: ops{"": inmemory.Reply(1)}}, []string{"/Operations/"}},
		{"space in a name", inmemory.Options{Operations: ops{"a b": inmemory.Reply(1)}}, []string{"/Operations/a b"}},
		{"slash in a name", inmemory.Options{Operations: ops{"a/b": {}}}, []string{"/Operations/a~1b"}},
		{"nothing to run", inmemory.Options{Operations: ops{"a": {}}}, []string{"/Operations/a"}},
		{"reply that is not JSON", inmemory.Options{Operations: ops{"a": inmemory.Reply(func() {})}}, []string{"/Operations/a"}},
		{"arguments that are no object", inmemory.Options{Operations: ops{"a": inmemory.Func(
			func(context.Context, *inmemory.Call, []int) (any, error) { return nil, nil })}}, []string{"/Operations/a/Args"}},
		{"arguments that JSON cannot hold", inmemory.Options{Operations: ops{"a": inmemory.Func(
			func(context.Context, *inmemory.Call, struct{ C chan int }) (any, error) { return nil, nil })}}, []string{"/Operations/a"}},
		{"schemas", inmemory.Options{Operations: ops{"a": raw(`{"type":"object","properties":3}`, `{`)}},
			[]string{"/Operations/a/Args", "/Operations/a/Result"}},
		{"read without function", inmemory.Options{Reads: map[string]inmemory.ReadFunc{"r": nil}}, []string{"/Reads/r"}},
		{"read named like an operation", inmemory.Options{Operations: ops{"x": inmemory.Reply(1)},
			Reads: map[string]inmemory.ReadFunc{"x": read}}, []string{"/Reads/x"}},
		{"description of no read", inmemory.Options{ReadInfo: map[string]provider.Read{"r": {}}}, []string{"/ReadInfo/r"}},
		{"event", inmemory.Options{Events: map[string]provider.EventType{"e": {Payload: json.RawMessage(`{"type":"what"}`), Replay: "all"}}},
			[]string{"/Events/e/Payload", "/Events/e/Replay"}},
		{"profile without version", inmemory.Options{Profiles: []string{"browser"}}, []string{"/Profiles/0"}},
		{"ids", inmemory.Options{IDs: []string{"a", "b", "a"}}, []string{"/IDs/2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := inmemory.New(tt.opts)
			var got []string
			if fe, ok := errors.AsType[*fault.Error](p.Check()); ok {
				for _, issue := range fe.Issues {
					got = append(got, issue.Path)
				}
				if fe.Code != fault.ProviderInvalid || !fe.Code.Config() || fe.Hint == "" {
					t.Errorf("got %#v", fe)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s", diff)
			}
			conns, err := p.Connect(t.Context(), nil)
			if errors.Is(err, fault.ProviderInvalid) != (tt.want != nil) {
				t.Errorf("Connect: got %v", err)
			}
			for _, c := range conns {
				c.Release(t.Context())
			}
		})
	}
}

func TestManifestIsSortedAndFilledFromProfiles(t *testing.T) {
	p := inmemory.New(inmemory.Options{
		Profiles: []string{"chat@1.0.0"},
		Operations: map[string]inmemory.Operation{
			"zoom": inmemory.Reply(1), "chat.post": inmemory.Reply(1),
			"chat.edit": inmemory.Reply(1).With(provider.Facts{Effects: true}),
		},
		Events: map[string]provider.EventType{"zoomed": {}},
	})
	def := func(version string, facts provider.Facts) *provider.Profile {
		return &provider.Profile{Name: "chat", Version: version,
			Operations: []provider.Operation{{Name: "chat.post", Facts: facts}, {Name: "chat.edit", Facts: facts}},
			Events:     []provider.EventType{{Name: "chat.message", Replay: provider.ReplayCursor}}}
	}
	conns, err := p.Connect(t.Context(), &provider.ConnectOptions{Profiles: []*provider.Profile{
		def("1.0.0", provider.Facts{Once: true}), def("2.0.0", provider.Facts{Guarded: true})}})
	if err != nil {
		t.Fatal(err)
	}
	defer conns[0].Release(t.Context())
	m := conns[0].Manifest()
	type line struct {
		Name  string
		Facts provider.Facts
	}
	var got []line
	for _, o := range m.Operations {
		got = append(got, line{o.Name, o.Facts})
	}
	want := []line{{"chat.edit", provider.Facts{Effects: true}}, {"chat.post", provider.Facts{Once: true}}, {Name: "zoom"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(m.Events) != 2 || m.Events[0].Name != "chat.message" || m.Events[1].Name != "zoomed" {
		t.Errorf("events %+v", m.Events)
	}
}

func TestUpdateMakesANewManifestAndTells(t *testing.T) {
	p, c := counter(t)
	before := c.Manifest()
	w, _ := provider.Ability[provider.Watcher](c)
	changes := make(chan provider.Change, 10)
	stop := w.Watch(func(change provider.Change) { changes <- change })
	defer stop()
	err := p.Update(func(o *inmemory.Options) {
		delete(o.Operations, "add")
		o.Operations["double"] = inmemory.Reply(2)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-changes; got != provider.ManifestChanged {
		t.Errorf("told of %q", got)
	}
	if before.Operations[0].Name != "add" || c.Manifest().Operations[0].Name != "double" {
		t.Errorf("before %+v, now %+v", before.Operations, c.Manifest().Operations)
	}
	if _, err := call(t.Context(), c, "double"); err != nil {
		t.Error(err)
	}
	err = p.Update(func(o *inmemory.Options) { o.Operations["bad name"] = inmemory.Reply(1) })
	if !errors.Is(err, fault.ProviderInvalid) || len(c.Manifest().Operations) != 1 {
		t.Errorf("a bad update: %v, manifest %+v", err, c.Manifest().Operations)
	}
}

func TestEqualIsIdentity(t *testing.T) {
	a, b := inmemory.New(inmemory.Options{}), inmemory.New(inmemory.Options{})
	if !a.Equal(a) || a.Equal(b) || a.Equal(nil) {
		t.Error("a thing is equal to itself only")
	}
}
