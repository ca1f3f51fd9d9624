package gates_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
)

func TestSeeHoldsAPayloadAgainstItsSchema(t *testing.T) {
	const form = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},"s":{"type":"string"}}}`
	chain := knowing(gates.Options{})
	catalog := gates.NewCatalog("a", &provider.Manifest{Events: []provider.EventType{{Name: "e", Payload: []byte(form)},
		{Name: "broken", Payload: []byte(`{"type":7}`)}, {Name: "free"}}})
	for name, c := range map[string]struct {
		ev   provider.Event
		fits bool
	}{
		"fits":                     {provider.Event{Type: "e", Payload: []byte(`{"n":1}`)}, true},
		"another type":             {provider.Event{Type: "e", Payload: []byte(`{"n":"` + planted + `"}`)}, false},
		"no JSON":                  {provider.Event{Type: "e", Payload: []byte(`{`)}, false},
		"none":                     {provider.Event{Type: "e"}, false},
		"no schema":                {provider.Event{Type: "free", Payload: []byte(`[]`)}, true},
		"neither":                  {provider.Event{Type: "free"}, true},
		"a schema that is no use":  {provider.Event{Type: "broken", Payload: []byte(`[]`)}, true},
		"a type that is not known": {provider.Event{Type: "other", Payload: []byte(`[]`)}, true},
		"a cursor has no payload":  {provider.Event{Type: "e", Kind: provider.EventCursor}, true},
		"nor has a gap":            {provider.Event{Type: "e", Kind: provider.EventGap}, true},
	} {
		c.ev.ID, c.ev.Cursor = "1", "c"
		got, err := chain.See(&gates.Request{Target: gates.Target{Catalog: catalog}}, c.ev)
		if (err == nil) != c.fits || err != nil && !errors.Is(err, fault.ResultInvalid) || got.ID != "1" || got.Cursor != "c" {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		if (got.Payload != nil) != (c.fits && c.ev.Payload != nil) {
			t.Errorf("%s: came with %s", name, got.Payload)
		}
		if err != nil && strings.Contains(err.Error(), planted) { //allow:errtext that it is clean is what is tested
			t.Errorf("%s: %v", name, err)
		}
	}
	if notes := strings.Join(catalog.Notes(), "\n"); !strings.Contains(notes, "broken: schema of the payload") {
		t.Errorf("notes are %q", notes)
	}
}

func TestWhatIsSeenIsSealedForTheThreadThatIsChosenLater(t *testing.T) {
	w := newWorld(t)
	r := w.request(`{}`)
	r.Target.Catalog = gates.NewCatalog("app", &provider.Manifest{Events: []provider.EventType{{Name: "e", Payload: []byte(elements)}}})
	chain := gates.New(&w.opts)
	ev := provider.Event{Type: "e", ID: "1", Payload: []byte(`{"el":"7"}`)}
	seen, err := chain.See(r, ev)
	if err != nil || string(seen.Payload) != string(ev.Payload) {
		t.Fatalf("seen as %s, %v", seen.Payload, err)
	}
	r.Call.Thread = "another"
	sealed, err := chain.SealEvent(t.Context(), r, seen)
	if err != nil || !strings.Contains(string(sealed.Payload), `"thread":"another"`) {
		t.Errorf("sealed as %s, %v", sealed.Payload, err)
	}
}
