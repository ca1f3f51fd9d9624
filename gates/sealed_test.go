package gates_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/secrets"
)

const elements = `{"properties":{"el":{"type":"string","x-ref":{"kind":"element","volatile":true}},"list":{"items":{"x-ref":{"kind":"element"}}},"shots":{"items":{"x-blob":{}}}}}`

// TestAReferenceBelongsToTheIncarnationThatGaveIt has a server whose answer says
// that it is another one by now.
func TestAReferenceBelongsToTheIncarnationThatGaveIt(t *testing.T) {
	w := newWorld(t)
	w.result = elements
	w.reply = provider.CallResult{Value: []byte(`{"el":"7"}`), Identity: &provider.Identity{Instance: "i2"}}
	out := w.call(w.request(`{}`))
	if out.Err != nil || !out.Sealed {
		t.Fatalf("got %+v", out)
	}
	for instance, code := range map[string]fault.Code{"i1": fault.RefReplaced, "i2": ""} {
		w.reply = provider.CallResult{Value: []byte(`{}`)}
		r := w.request(string(out.Value))
		r.Target.Identity.Instance = instance
		if again := w.call(r); code == "" && again.Err != nil || code != "" && !errors.Is(again.Err, code) {
			t.Errorf("at %s: %v, want %q", instance, again.Err, code)
		}
	}
}

func TestAReplyThatCannotBeSealedIsTheServersFault(t *testing.T) {
	w := newWorld(t)
	w.result = elements
	foreign := text(w.ref("other", "7"))
	many := `{"list":["a"` + strings.Repeat(`,"a"`, 100_000) + `]}`
	blobs := `{"shots":["AAAA"` + strings.Repeat(`,"AAAA"`, 1_000) + `]}`
	for name, c := range map[string]struct{ value, instance string }{
		"no id": {`{"el":""}`, "i1"}, "a sealed one": {`{"list":[` + foreign + `]}`, "i1"}, "too long": {`{"el":"` + strings.Repeat("x", refs.MaxSize) + `"}`, "i1"},
		"nothing to be bound to": {`{"el":"7"}`, ""}, "too many": {many, "i1"}, "too many blobs": {blobs, "i1"}, "no base64": {`{"shots":["?"]}`, "i1"},
	} {
		w.reply = provider.CallResult{Value: []byte(c.value), Content: []provider.Content{{Type: provider.ContentText, Text: "7"}}}
		r := w.request(`{}`)
		r.Target.Identity.Instance = c.instance
		out := w.call(r)
		if fault.CodeOf(out.Err) != fault.ResultInvalid || out.Value != nil || out.Content != nil || out.Sealed || !out.Sent {
			t.Errorf("%s: got %.200v with %.100s", name, out.Err, out.Value)
		}
	}
}

func TestOnlyWhatWasSealedCountsAsSealed(t *testing.T) {
	w := newWorld(t)
	w.result = elements
	for value, sealed := range map[string]bool{`{ "x": 1 }`: false, `{"list":[null]}`: false, `{"el":"7"}`: true, `{"shots":["AAAA"]}`: true} {
		w.reply = provider.CallResult{Value: []byte(value)}
		if out := w.call(w.request(`{}`)); out.Err != nil || out.Sealed != sealed || !sealed && string(out.Value) != value {
			t.Errorf("%s: sealed %v, %s, %v", value, out.Sealed, out.Value, out.Err)
		}
	}
}

func TestReferencesOfReadsAreSealed(t *testing.T) {
	w := newWorld(t)
	r := w.request(`{}`)
	r.Target = gates.Target{Name: "app", Identity: provider.Identity{Instance: "i1"},
		Catalog: gates.NewCatalog("app", &provider.Manifest{Reads: []provider.Read{{Name: "op", Result: []byte(elements)}}}),
		Read: func(context.Context, *provider.ReadRequest) (*provider.ReadResult, error) {
			return &provider.ReadResult{Value: []byte(`{"el":"7"}`)}, nil
		}}
	if out := w.call(r); out.Err != nil || !out.Sealed || !strings.Contains(string(out.Value), `"sig"`) {
		t.Errorf("got %s, %v", out.Value, out.Err)
	}
}

// leakyBlobs fail with a credential in their error.
type leakyBlobs struct{ refs.Blobs }

func (leakyBlobs) Put(context.Context, refs.BlobInfo, io.Reader) (refs.BlobInfo, error) {
	return refs.BlobInfo{}, errors.New("put with key " + password)
}

// listened takes an event of the type "e" the way back.
func (w *world) listened(e provider.Event, payload string) (provider.Event, error) {
	r := w.request(`{}`)
	r.Target.Catalog = gates.NewCatalog("app", &provider.Manifest{Events: []provider.EventType{{Name: "e", Payload: []byte(payload)}}})
	e.Type = "e"
	return gates.New(&w.opts).Event(w.t.Context(), r, e)
}

func TestAnEventThatCannotBeSealedSaysSo(t *testing.T) {
	w := newWorld(t)
	w.opts.Scrubber = secrets.NewScrubber()
	w.opts.Scrubber.Add(password)
	for name, c := range map[string]struct {
		payload string
		blobs   refs.Blobs
		code    fault.Code
	}{
		"no id":           {`{"el":""}`, w.blobs, fault.ResultInvalid},
		"store down":      {`{"shots":["AAAA"]}`, leakyBlobs{}, fault.BlobUnavailable},
		"store panicking": {`{"shots":["AAAA"]}`, brokenBlobs{}, fault.Panicked},
	} {
		w.opts.Blobs = c.blobs
		got, err := w.listened(provider.Event{ID: "1", Cursor: "c", Payload: []byte(c.payload)}, elements)
		//allow:errtext the text is where the credential would be
		if fault.CodeOf(err) != c.code || got.Payload != nil || got.ID != "1" || got.Cursor != "c" || strings.Contains(err.Error(), password) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	got, err := w.listened(provider.Event{Payload: []byte(`{"el":"7"}`), Identity: &provider.Identity{Instance: "i9"}}, elements)
	if err != nil || !strings.Contains(string(got.Payload), `"instance":"i9"`) {
		t.Errorf("got %s, %v", got.Payload, err)
	}
}

func TestAConnectionWithoutACatalogOffersNothing(t *testing.T) {
	w := newWorld(t)
	r := w.request(`{}`)
	r.Target.Catalog = nil
	sub, out := gates.New(&w.opts).Listen(t.Context(), r, nil)
	if sub != nil {
		t.Error("got a subscription")
	}
	w.refused(out, "exists", fault.OpUnknown)
}

// TestAnswersAreNotWrittenTo has a provider that gives the same answer to all.
func TestAnswersAreNotWrittenTo(t *testing.T) {
	w := newWorld(t)
	w.opts.Scrubber = secrets.NewScrubber()
	w.opts.Scrubber.Add(password)
	w.reply.Content = []provider.Content{{Type: provider.ContentText, Text: "a " + password}}
	if out := w.call(w.request(`{}`)); strings.Contains(text(out.Content), password) {
		t.Errorf("got %+v", out.Content)
	}
	if w.reply.Content[0].Text != "a "+password {
		t.Error("the provider's answer was changed")
	}
}
