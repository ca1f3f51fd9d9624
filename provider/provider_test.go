package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// plain is a Conn without abilities; the embedded interface is never called.
type plain struct{ provider.Conn }

type resetting struct{ plain }

func (resetting) Reset(context.Context) error { return nil }

type wrapping struct {
	plain
	inner provider.Conn
}

func (w wrapping) Unwrap() provider.Conn { return w.inner }

func TestAbilityLooksThroughWrappers(t *testing.T) {
	for _, tt := range []struct {
		name string
		conn provider.Conn
		want bool
	}{
		{"none at all", nil, false},
		{"without it", plain{}, false},
		{"itself", resetting{}, true},
		{"one wrapper", wrapping{inner: resetting{}}, true},
		{"two wrappers", wrapping{inner: wrapping{inner: resetting{}}}, true},
		{"wrapper of nothing", wrapping{}, false},
		{"wrapper of one without it", wrapping{inner: plain{}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, ok := provider.Ability[provider.Resetter](tt.conn)
			if ok != tt.want || (r != nil) != tt.want {
				t.Errorf("got %v, %v, want %v", r, ok, tt.want)
			}
		})
	}
}

func TestAbilityPrefersTheOutermost(t *testing.T) {
	outer := struct {
		wrapping
		provider.Resetter
	}{wrapping{inner: resetting{}}, nil}
	if r, _ := provider.Ability[provider.Resetter](outer); r != provider.Resetter(outer) {
		t.Errorf("got %T, want the wrapper's own", r)
	}
}

func TestErrorsSayWhetherThePeerActed(t *testing.T) {
	cause := errors.New("connection refused")
	for _, tt := range []struct {
		name string
		err  error
		code fault.Code
		peer string
	}{
		{"NotSent", provider.NotSent(cause), fault.NotSent, ""},
		{"Unknown", provider.Unknown(cause), fault.OutcomeUnknown, ""},
		{"Refused", provider.Refused("empty", "no water"), fault.OpFailed, "empty"},
		{"UnknownCursor", provider.UnknownCursor("trimmed"), fault.OpFailed, "invalid_cursor"},
		{"Guarded", provider.Guarded("#all", "reaches everyone"), fault.Guarded, "#all"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, err := range []error{tt.err, fmt.Errorf("kettle: %w", tt.err)} {
				fe, ok := errors.AsType[*fault.Error](err)
				if !ok || fault.CodeOf(err) != tt.code || !errors.Is(err, tt.code) || fe.PeerCode != tt.peer {
					t.Errorf("got %#v, want code %s and peer code %q", fe, tt.code, tt.peer)
				}
			}
		})
	}
}

func TestAnUnknownCursorIsAGap(t *testing.T) {
	if !errors.Is(provider.UnknownCursor("trimmed"), fault.Gap) || errors.Is(provider.Refused("invalid_cursor", "trimmed"), fault.Gap) {
		t.Error("the refusal of a cursor is not told from others")
	}
}

func TestMarksKeepTheCause(t *testing.T) {
	for _, mark := range []func(error) error{provider.NotSent, provider.Unknown} {
		if err := mark(context.Canceled); !errors.Is(err, context.Canceled) {
			t.Errorf("%v hides its cause", err)
		}
		if err := mark(nil); err != nil {
			t.Errorf("marking nil gave %v", err)
		}
	}
}

func TestOuterMarkWins(t *testing.T) {
	err := provider.Unknown(provider.NotSent(errors.New("lost")))
	if got := fault.CodeOf(err); got != fault.OutcomeUnknown {
		t.Errorf("got %s, want %s", got, fault.OutcomeUnknown)
	}
}

func TestRefusedTextIsNoFormat(t *testing.T) {
	want := provider.Refused("", "100%d sure").(*fault.Error).Err.Error()
	if want != "100%d sure" {
		t.Errorf("got %q", want)
	}
}

func TestNormalOptionsAreUsable(t *testing.T) {
	for _, o := range []*provider.ConnectOptions{nil, {}, {Name: "kettle"}} {
		n := o.Normal()
		n.Redact("secret")
		n.Track(provider.Process{})
		n.Logger.Info("hello")
		if o != nil && n.Name != o.Name {
			t.Errorf("name became %q", n.Name)
		}
	}
}

func TestNormalKeepsWhatIsSetAndCopies(t *testing.T) {
	var got string
	o := &provider.ConnectOptions{Redact: func(s string) { got = s }}
	n := o.Normal()
	n.Redact("secret")
	n.Name = "other"
	if got != "secret" || o.Name != "" || o.Logger != nil {
		t.Errorf("redacted %q, original %+v", got, o)
	}
}

func TestDecode(t *testing.T) {
	type paid struct{ Amount int }
	got, err := provider.Decode[paid](provider.Event{Payload: json.RawMessage(`{"Amount":3}`)})
	if err != nil || got != (paid{3}) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := provider.Decode[paid](provider.Event{Payload: json.RawMessage(`[]`)}); err == nil {
		t.Error("a payload of another shape decoded")
	}
	if _, err := provider.Decode[paid](provider.Event{}); err == nil {
		t.Error("no payload decoded")
	}
}

func TestManifestFindsByName(t *testing.T) {
	m := &provider.Manifest{
		Operations: []provider.Operation{{Name: "a"}, {Name: "b", Title: "op"}},
		Reads:      []provider.Read{{Name: "b", Title: "read"}},
		Events:     []provider.EventType{{Name: "b", Title: "event"}},
	}
	op, okOp := m.Operation("b")
	read, okRead := m.Read("b")
	event, okEvent := m.Event("b")
	if diff := cmp.Diff([]string{"op", "read", "event"}, []string{op.Title, read.Title, event.Title}); diff != "" || !okOp || !okRead || !okEvent {
		t.Errorf("found %v %v %v: %s", okOp, okRead, okEvent, diff)
	}
	if _, ok := m.Operation("c"); ok {
		t.Error("found an operation that is not there")
	}
	if _, ok := m.Read("a"); ok {
		t.Error("found an operation as a read")
	}
	if _, ok := m.Event("a"); ok {
		t.Error("found an operation as an event")
	}
}

func TestEventKeepsItsShapeInJSON(t *testing.T) {
	e := provider.Event{Kind: provider.EventGap, Type: "paid", Cursor: "7",
		Identity: &provider.Identity{Instance: "shop-1"}}
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var back provider.Event
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, back); diff != "" {
		t.Errorf("%s", diff)
	}
}
