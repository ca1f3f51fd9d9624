package gates_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/store"
)

// brokenBlobs panic.
type brokenBlobs struct{ refs.Blobs }

func (brokenBlobs) Put(context.Context, refs.BlobInfo, io.Reader) (refs.BlobInfo, error) {
	panic("put")
}

func (brokenBlobs) Open(context.Context, string) (io.ReadSeekCloser, refs.BlobInfo, error) {
	panic("open")
}

func allow() gates.Approver {
	return gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) {
		return gates.Decision{Verdict: gates.Allow, By: "ada"}, nil
	})
}

// TestWhatPanicsOnTheWayOutRefusesTheCall breaks each thing that was handed in.
func TestWhatPanicsOnTheWayOutRefusesTheCall(t *testing.T) {
	approved := func(w *world, r *gates.Request) {
		w.opts.Approver = allow()
		r.Target.Policy = connection.Policy{Approve: []string{"*"}}
	}
	for name, c := range map[string]struct {
		gate string
		code fault.Code
		on   func(*world, *gates.Request)
	}{
		"resolver": {"secrets", fault.Panicked, func(w *world, r *gates.Request) {
			w.opts.Secrets = secrets.ResolverFunc(func(context.Context, secrets.Use) (secrets.Value, error) { panic("resolve") })
			r.Call.Args = []byte(`{"a":{"$secret":"pw"}}`)
			r.Call.Secrets = []secrets.Placeholder{{Path: "/a", Ref: "pw"}}
		}},
		"blobs": {"secrets", fault.Panicked, func(w *world, r *gates.Request) {
			w.opts.Blobs = brokenBlobs{}
			r.Call.Args = []byte(`{"a":` + text(w.blob("text/plain", "x", false)) + `}`)
		}},
		"approver": {"approval", fault.SteeringDenied, func(w *world, r *gates.Request) {
			approved(w, r)
			w.opts.Approver = gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) { panic("approve") })
		}},
		"asked, at the end": {"approval", fault.Panicked, func(w *world, r *gates.Request) {
			approved(w, r)
			r.Asked = func(a *gates.Approval) {
				if a.Closed() {
					panic("asked")
				}
			}
		}},
		"live": {"approval", fault.Panicked, func(w *world, r *gates.Request) {
			approved(w, r)
			r.Live = func(context.Context) (*gates.Target, error) { panic("live") }
		}},
		"no target": {"approval", fault.Panicked, func(w *world, r *gates.Request) {
			approved(w, r)
			r.Live = func(context.Context) (*gates.Target, error) { return nil, nil }
		}},
		"route": {"refs", fault.Panicked, func(w *world, r *gates.Request) {
			r.Route = func(context.Context, connection.Name) (*gates.Target, error) { panic("route") }
			r.Call.Args = []byte(`{"a":` + text(w.ref("other", "7")) + `}`)
		}},
		"before": {"", fault.Panicked, func(_ *world, r *gates.Request) {
			r.Before = func(context.Context, *gates.Call, func(store.Tx) error) error { panic("before") }
		}},
		"hook": {"hooks", fault.SteeringDenied, func(w *world, r *gates.Request) {
			w.opts.Hooks = []gates.Hook{hook("h", func(*gates.Call) (gates.Decision, error) { panic("hook") })}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.request(`{}`)
			c.on(w, r)
			w.refused(w.call(r), c.gate, c.code)
		})
	}
}

func TestWhatPanicsOnTheWayBackCostsOnlyItself(t *testing.T) {
	for name, c := range map[string]struct {
		code fault.Code
		on   func(*world, *gates.Request)
	}{
		"meter": {"", func(w *world, _ *gates.Request) { w.opts.Meter = meterFunc(func(gates.Usage) { panic("meter") }) }},
		"sink": {"", func(w *world, _ *gates.Request) {
			w.opts.Audit.Sinks = append(w.opts.Audit.Sinks, sinkFunc(func(context.Context, *gates.Record) error { panic("sink") }))
		}},
		"blobs": {fault.Panicked, func(w *world, r *gates.Request) {
			w.result = `{"properties":{"shot":{"x-blob":{}}}}`
			w.opts.Blobs, w.reply.Value = brokenBlobs{}, []byte(`{"shot":"AAAA"}`)
			r.Target = w.target("app")
		}},
		"provider": {fault.OutcomeUnknown, func(_ *world, r *gates.Request) {
			r.Target.Send = func(context.Context, *provider.CallRequest) (*provider.CallResult, error) { panic("send") }
		}},
		"progress": {"", func(w *world, r *gates.Request) {
			r.Progress = func(provider.Progress) { panic("progress") }
			r.Target.Send = func(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					req.Progress(provider.Progress{Done: 1})
				}()
				<-done
				return w.send(ctx, req)
			}
		}},
		"task": {fault.Panicked, func(_ *world, r *gates.Request) {
			r.Task = func(provider.TaskID) error { panic("task") }
			r.Target.Send = func(_ context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
				var err error
				done := make(chan struct{})
				go func() {
					defer close(done)
					err = req.Task("t1")
				}()
				<-done
				return nil, err
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.request(`{}`)
			c.on(w, r)
			out := w.call(r)
			if c.code == "" && out.Err != nil || c.code != "" && !errors.Is(out.Err, c.code) || !out.Sent || out.Gate != "" {
				t.Errorf("got gate %q and %v, want %q", out.Gate, out.Err, c.code)
			}
			if name == "meter" {
				w.used = append(w.used, gates.Usage{Connection: "app"})
			}
			w.written(out, 1)
		})
	}
}

type meterFunc func(gates.Usage)

func (f meterFunc) Record(_ context.Context, u gates.Usage) { f(u) }

// TestAPanicWithASecretAcrossTheCutShowsNoneOfIt has a secret where a quoted
// text ends.
func TestAPanicWithASecretAcrossTheCutShowsNoneOfIt(t *testing.T) {
	const secret = "0123456789abcdefghijklmnopqrstuvwxyz"
	w := newWorld(t)
	var log bytes.Buffer
	w.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w.opts.Scrubber = secrets.NewScrubber()
	w.opts.Scrubber.Add(secret)
	said := strings.Repeat("x", 110) + secret
	w.opts.Audit.Sinks = append(w.opts.Audit.Sinks, sinkFunc(func(context.Context, *gates.Record) error { panic(said) }))
	r := w.request(`{}`)
	r.Target.Send = func(context.Context, *provider.CallRequest) (*provider.CallResult, error) { panic(said) }
	out := w.call(r)
	if all := log.String() + out.Err.Error() + text(w.records); strings.Contains(all, secret[:6]) {
		t.Errorf("a part of the secret is in %s", all)
	}
}
