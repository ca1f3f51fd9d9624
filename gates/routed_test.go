package gates_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
)

// routed is a call of "app" with a reference of "other".
func (w *world) routed(to *gates.Target, err error) *gates.Request {
	r := w.request(`{"a":` + text(w.ref("other", "7")) + `}`)
	r.Route = func(context.Context, connection.Name) (*gates.Target, error) { return to, err }
	return r
}

func TestACallGoesWhereItsReferencesBelong(t *testing.T) {
	w := newWorld(t)
	other := w.target("other")
	out := w.call(w.routed(&other, nil))
	if out.Err != nil || out.Connection != "other" || len(w.sent) != 1 || w.sent[0] != `{"a":"7"}` {
		t.Errorf("got %v from %q, sent %q", out.Err, out.Connection, w.sent)
	}
	w.written(out, 1)
}

func TestTheConnectionOfReferencesHasItsOwnGates(t *testing.T) {
	for name, c := range map[string]struct {
		gate string
		code fault.Code
		on   func(*world, *gates.Target)
	}{
		"denied":     {"policy", fault.SteeringDenied, func(_ *world, o *gates.Target) { o.Policy.Deny = []string{"*"} }},
		"no such op": {"exists", fault.OpUnknown, func(_ *world, o *gates.Target) { o.Catalog = nil }},
		"other arguments": {"schema", fault.ArgsInvalid, func(w *world, o *gates.Target) {
			w.schema = `{"properties":{"a":{"maxLength":0}}}`
			*o = w.target("other")
		}},
		"another name":  {"refs", fault.RefUnknown, func(w *world, o *gates.Target) { *o = w.target("third") }},
		"under a lease": {"refs", fault.RefLease, func(_ *world, o *gates.Target) { o.Lease = "l1" }},
		"a read, not sent": {"", fault.NotSent, func(_ *world, o *gates.Target) {
			o.Send = nil
			o.Read = func(context.Context, *provider.ReadRequest) (*provider.ReadResult, error) { return nil, nil }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			other := w.target("other")
			c.on(w, &other)
			w.refused(w.call(w.routed(&other, nil)), c.gate, c.code)
		})
	}
}

func TestAConnectionThatCannotBeUsedIsNoFaultOfTheReference(t *testing.T) {
	w := newWorld(t)
	out := w.call(w.routed(nil, fault.New(fault.Unavailable, "down")))
	w.refused(out, "refs", fault.Unavailable)
	if errors.Is(out.Err, fault.RefInvalid) {
		t.Errorf("got %v", out.Err)
	}
	w = newWorld(t)
	out = w.call(w.routed(nil, fault.New(fault.RefUnknown, "not yours")))
	w.refused(out, "refs", fault.RefInvalid)
}

// TestAForgedReferenceChoosesNoConnection has references that name a connection
// which they do not come from.
func TestAForgedReferenceChoosesNoConnection(t *testing.T) {
	for name, forge := range map[string]func(string) string{
		"another connection": func(ref string) string { return strings.Replace(ref, `"other"`, `"vault"`, 1) },
		"another id":         func(ref string) string { return strings.Replace(ref, `"7"`, `"8"`, 1) },
		"another thread":     func(ref string) string { return strings.Replace(ref, `"t"`, `"u"`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.request(`{"a":` + forge(text(w.ref("other", "7"))) + `}`)
			r.Route = func(context.Context, connection.Name) (*gates.Target, error) {
				t.Error("somebody was asked for the connection")
				return nil, fault.New(fault.RefUnknown, "no")
			}
			w.refused(w.call(r), "refs", fault.RefForged)
		})
	}
}

// TestTheRecordOfARoutedCallIsRequiredWhereItGoes has a sink that fails.
func TestTheRecordOfARoutedCallIsRequiredWhereItGoes(t *testing.T) {
	w := newWorld(t)
	w.opts.Audit = gates.Audit{Sinks: []gates.Sink{w.sink(errors.New("full"))}, RequiredFor: []string{"other.*"}}
	other := w.target("other")
	out := w.call(w.routed(&other, nil))
	if !errors.Is(out.Err, fault.AuditFailed) || out.Sent || len(w.sent) > 0 {
		t.Errorf("got %v, sent %q", out.Err, w.sent)
	}
}

func TestAHookCannotSendReferencesWhereTheCallerMayNot(t *testing.T) {
	w := newWorld(t)
	far := text(w.ref("far", "9"))
	w.opts.Hooks = []gates.Hook{hook("swap", func(*gates.Call) (gates.Decision, error) {
		return gates.Decision{Args: []byte(`{"a":` + far + `}`)}, nil
	})}
	w.refused(w.call(w.request(`{}`)), "refs", fault.RefUnknown)

	w.sent, w.used, w.records = nil, nil, nil
	other := w.target("other")
	w.refused(w.call(w.routed(&other, nil)), "refs", fault.RefUnknown) // a second way round
}
