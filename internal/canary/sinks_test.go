package canary_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
)

// exhibit is one text that left a harness, and where it was.
type exhibit struct{ where, text string }

// way is a way out.
type way struct {
	name string
	// out collects what went out there. It is called after everything is closed.
	out func(*testing.T, *world) []exhibit
	// may are the sources whose secrets belong there.
	may []string
	// bare tells that nothing was replaced there, since nobody put a secret in.
	bare bool
}

// sinks is the table. A new way out is a new row.
func sinks() []way {
	return []way{
		{name: "store file", out: func(t *testing.T, w *world) []exhibit { return files(t, filepath.Join(w.dir, "store.db")) }},
		{name: "blobs", out: func(t *testing.T, w *world) []exhibit { return files(t, filepath.Join(w.dir, "blobs")) }},
		{name: "log", out: func(_ *testing.T, w *world) []exhibit { return split("line", w.log.String()) }},
		{name: "audit lines", out: func(_ *testing.T, w *world) []exhibit { return split("record", w.lines.String()) }},
		{name: "spans", out: spans},
		{name: "events", out: events},
		{name: "meter", out: usages, bare: true},
		{name: "requests to models", out: requests},
		{name: "told to the application", out: tolds},
		{name: "approvals handler", out: func(_ *testing.T, w *world) []exhibit { return split("answer", strings.Join(w.listed, "\n")) }},
		{name: "received by the server that refuses", out: bodies("/refuse"), bare: true},
		{name: "received by the server with headers", bare: true, may: []string{"resolver", "late description"}, out: bodies("/header")},
		{name: "received by the server with a URL", bare: true, out: bodies("/userinfo")},
		{name: "received by the server over stdio", out: func(t *testing.T, w *world) []exhibit { return files(t, w.received()) }},
		{name: "received by the server in memory", bare: true, may: []string{"short", "approved arguments"}, out: calls},
	}
}

// files reads a file, or all below a directory.
func files(t *testing.T, path string) []exhibit {
	var all []exhibit
	err := filepath.WalkDir(path, func(at string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(at)
		all = append(all, exhibit{filepath.Base(at), string(data)})
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return all
}

func split(what, text string) []exhibit {
	var all []exhibit
	for line := range strings.Lines(text) {
		all = append(all, exhibit{what + " " + fmt.Sprint(len(all)), line})
	}
	return all
}

// shown is a value in the ways in which programs show values.
func shown(where string, value any) []exhibit {
	all := []exhibit{{where + " as %+v", fmt.Sprintf("%+v", value)}}
	if raw, err := json.Marshal(value); err == nil {
		all = append(all, exhibit{where + " as JSON", string(raw)})
	}
	if raw, ok := value.(json.RawMessage); ok {
		all = append(all, exhibit{where, string(raw)})
	}
	if b, ok := value.(interface{ String() string }); ok {
		all = append(all, exhibit{where + " as text", b.String()})
	}
	return all
}

// failure is an error in the ways in which programs show errors, and all that it
// wraps.
func failure(where string, err error) []exhibit {
	if err == nil {
		return nil
	}
	all := []exhibit{{where + ": error", err.Error()}, {where + ": error as %+v", fmt.Sprintf("%+v", err)}, {where + ": error as %#v", fmt.Sprintf("%#v", err)}}
	if fe, ok := errors.AsType[*fault.Error](err); ok {
		all = append(all, shown(where+": fault", fe)...)
	}
	switch wrapped := err.(type) {
	case interface{ Unwrap() error }:
		all = append(all, failure(where+" unwrapped", wrapped.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, e := range wrapped.Unwrap() {
			all = append(all, failure(where+" unwrapped", e)...)
		}
	}
	return all
}

func spans(_ *testing.T, w *world) []exhibit {
	var all []exhibit
	for _, s := range w.tracer.spans {
		where := fmt.Sprintf("span %s %s", s.Kind, s.Op)
		all = append(append(all, shown(where, s.Span)...), failure(where, s.err)...)
	}
	return all
}

func events(t *testing.T, w *world) []exhibit {
	var all []exhibit
	deltas := map[string]string{} // what a reader puts together
	for ev, err := range w.h.Events(t.Context(), "") {
		if err != nil {
			t.Error(err)
		}
		where := fmt.Sprintf("event %s of %s.%s", ev.Type, ev.Connection, ev.Op)
		all = append(append(all, shown(where, ev)...), failure(where, ev.Err)...)
		all = append(all, shown(where+": data", ev.Data)...)
		if ev.Item != nil {
			all = append(all, shown(where+": item", *ev.Item)...)
			for _, p := range ev.Item.Parts {
				all = append(all, exhibit{where + ": bytes", string(p.Data)})
			}
		}
		deltas[string(ev.Type)+ev.Step] += ev.Text
	}
	for where, text := range deltas {
		all = append(all, exhibit{"put together: " + where, text})
	}
	return all
}

func usages(_ *testing.T, w *world) []exhibit {
	var all []exhibit
	for _, u := range w.meter.kept {
		all = append(all, shown("usage of "+u.Op, u)...)
	}
	return all
}

func requests(_ *testing.T, w *world) []exhibit {
	var all []exhibit
	for _, m := range w.scripts {
		for i, req := range m.Requests() {
			all = append(all, shown(fmt.Sprint("request ", i), req)...)
			for _, it := range req.Items {
				for _, p := range it.Parts {
					all = append(all, exhibit{fmt.Sprint("bytes in request ", i), string(p.Data)})
				}
			}
		}
	}
	return all
}

func tolds(_ *testing.T, w *world) []exhibit {
	var all []exhibit
	for _, t := range w.told {
		all = append(append(all, shown(t.what, t.value)...), failure(t.what, t.err)...)
	}
	return all
}

// bodies are those of the requests under a path.
func bodies(path string) func(*testing.T, *world) []exhibit {
	return func(_ *testing.T, w *world) []exhibit {
		var all []exhibit
		for i, r := range w.web.got(path) {
			all = append(all, exhibit{fmt.Sprint("body ", i), string(r.body)})
		}
		return all
	}
}

func calls(_ *testing.T, w *world) []exhibit {
	var all []exhibit
	for _, c := range w.shop.Calls() {
		all = append(all, exhibit{"call of " + c.Op, string(c.Args)})
	}
	return all
}
