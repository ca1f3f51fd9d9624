package gates_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/store"
)

const planted = "s3cr3t-token"

// knowing is a chain that knows the planted secret.
func knowing(opts gates.Options) *gates.Chain {
	opts.Scrubber = secrets.NewScrubber()
	opts.Scrubber.Add(planted)
	return gates.New(&opts)
}

func TestEventsKeepNoCredential(t *testing.T) {
	c := knowing(gates.Options{})
	req := &gates.Request{Target: gates.Target{Catalog: gates.NewCatalog("a", nil)}}
	for name, payload := range map[string]string{"sound": `{"a":"` + planted + `"}`, "unsound": planted} {
		e := provider.Event{ID: "1-" + planted, Type: planted, Cursor: "c-" + planted,
			Identity: &provider.Identity{Instance: planted}, Payload: json.RawMessage(payload)}
		got, err := c.Event(t.Context(), req, e)
		raw, _ := json.Marshal(got)
		if bytes.Contains(raw, []byte(planted)) {
			t.Errorf("%s: it is still there: %s", name, raw)
		}
		if (err != nil) != (name == "unsound") || err != nil && strings.Contains(err.Error(), planted) { //allow:errtext that it is clean is what is tested
			t.Errorf("%s: %v", name, err)
		}
		if e.Identity.Instance != planted {
			t.Error("the event that came was changed")
		}
	}
	same := provider.Event{ID: "1", Type: "t", Cursor: "c"}
	if got, err := c.Event(t.Context(), req, same); err != nil || got.Cursor != "c" || got.ID != "1" {
		t.Errorf("an event without credentials came back as %+v, %v", got, err)
	}
}

func TestABlobWithACredentialIsNotKept(t *testing.T) {
	ctx := t.Context()
	s := store.Memory()
	defer s.Close()
	keys, err := refs.OpenKeys(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	blobs := refs.MemoryBlobs(nil)
	c := knowing(gates.Options{Keys: keys, Blobs: blobs})
	op := provider.Operation{Name: "photo", Result: json.RawMessage(`{"type":"object","properties":{"p":{"type":"string","x-blob":{}}}}`)}
	call := func(data string) *gates.Outcome {
		value, err := json.Marshal(map[string]string{"p": base64.StdEncoding.EncodeToString([]byte(data))})
		if err != nil {
			t.Fatal(err)
		}
		return c.Call(ctx, &gates.Request{
			Call: gates.Call{Connection: "a", Op: "photo", Source: gates.SourceStep, Thread: "t", Execution: "e"},
			Target: gates.Target{Catalog: gates.NewCatalog("a", &provider.Manifest{Operations: []provider.Operation{op}}),
				Send: func(context.Context, *provider.CallRequest) (*provider.CallResult, error) {
					return &provider.CallResult{Value: value}, nil
				}}})
	}
	if out := call("pixels"); out.Err != nil || !out.Sealed {
		t.Fatalf("a blob without one is not kept: %v", out.Err)
	}
	if out := call("pixels and " + planted + " in between"); !errors.Is(out.Err, fault.ResultInvalid) || out.Value != nil {
		t.Errorf("got %s, %v", out.Value, out.Err)
	}
	if _, err := c.Keep(ctx, &gates.Call{Thread: "t", Execution: "e"}, "image/png", []byte(planted)); !errors.Is(err, fault.BlobUnavailable) {
		t.Errorf("Keep: %v", err)
	}
	if n, err := blobs.Collect(ctx, "e"); err != nil || n != 1 {
		t.Errorf("%d blobs are kept, %v", n, err)
	}
}

func TestTheLogOfAChainIsRedacted(t *testing.T) {
	var log bytes.Buffer
	c := knowing(gates.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Hooks: []gates.Hook{{Name: "open", FailOpen: true,
		BeforeToolCall: func(context.Context, *gates.Call) (gates.Decision, error) { panic(strings.Repeat("x", 115) + planted) }}}})
	out := c.Call(t.Context(), &gates.Request{Call: gates.Call{Connection: "a", Op: "do", Source: gates.SourceStep},
		Target: gates.Target{Catalog: gates.NewCatalog("a", &provider.Manifest{Operations: []provider.Operation{{Name: "do"}}}),
			Send: func(context.Context, *provider.CallRequest) (*provider.CallResult, error) {
				return &provider.CallResult{Identity: &provider.Identity{Instance: planted}}, nil
			}}})
	if out.Err != nil || out.Identity == nil || out.Identity.Instance != "<redacted>" {
		t.Errorf("got %+v", out)
	}
	if log.Len() == 0 || strings.Contains(log.String(), planted[:5]) {
		t.Errorf("the log: %s", log.String())
	}
}
