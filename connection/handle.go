package connection

import (
	"encoding/json"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

// Handle declares a connection that steps need. It holds nothing live: keep,
// copy and share it.
type Handle struct {
	name, from Name
	fresh      Fresh
	setup      json.RawMessage
	wait       time.Duration
	profile    *provider.Profile
	err        error // of the setup
}

// Fresh says whose a private connection is.
type Fresh string

// Whose it is.
const (
	// Shared is no private connection: the one that all of the harness use. Of a
	// pool, which has none, it is FreshRun.
	Shared Fresh = ""
	// FreshRun is one for the run, whichever of its parallel paths use it, handed
	// back when the run ends.
	FreshRun Fresh = "run"
	// FreshPath is one for each parallel path and each spawned child that uses it,
	// handed back when that path ends. Outside of these it is the run's.
	FreshPath Fresh = "path"
)

// Requirement is what a handle needs its connection to speak.
type Requirement struct {
	// Profile is the vocabulary, which must be among the harness's Profiles.
	Profile *provider.Profile
}

// HandleOptions are settings of a handle. S is the profile's type for its setup.
type HandleOptions[S any] struct {
	// From names the connection or pool of the harness. Default: the handle's name.
	From Name
	// Fresh asks for a private connection, which From must be a pool for.
	Fresh Fresh
	// Setup says what a private connection begins with. It is checked against the
	// profile's schema and must hold no secrets. Fields that only the host may set
	// are refused.
	Setup S
	// Wait bounds how long the first use waits for room in a pool that is full. 0 is
	// 5 minutes; negative does not wait. The error is pool_timeout, at once if all
	// that the pool may have is held by the steps around the one that waits.
	Wait time.Duration
}

// Named is a handle on the connection of that name, without a profile.
func Named(name Name) *Handle { return &Handle{name: name} }

// NewHandle is a handle that needs a profile, or a private connection. Authors of
// profiles wrap it in constructors of their own, which fix S and the requirement;
// without a profile the requirement is nil, which requires nothing, and S is any.
// Steps, tools, the ledger and patterns know the connection by
// the handle's name. A mistake is reported by harness.New, or at the first use
// inside a function.
func NewHandle[S any](name Name, needs *Requirement, opts *HandleOptions[S]) *Handle {
	h := &Handle{name: name}
	if needs != nil {
		h.profile = needs.Profile
	}
	if opts == nil {
		return h
	}
	h.from, h.fresh, h.wait = opts.From, opts.Fresh, opts.Wait
	h.setup, h.err = json.Marshal(opts.Setup)
	if string(h.setup) == "null" || string(h.setup) == "{}" {
		h.setup = nil
	}
	return h
}

// Name is what steps and records call the connection.
func (h *Handle) Name() Name { return h.name }

// From is the connection or pool of the harness that it is.
func (h *Handle) From() Name {
	if h.from != "" {
		return h.from
	}
	return h.name
}

// Fresh says whose the connection is.
func (h *Handle) Fresh() Fresh { return h.fresh }

// Setup is what a private connection begins with, as JSON; nil is nothing. The
// caller does not change it.
func (h *Handle) Setup() json.RawMessage { return h.setup }

// Wait is how long the first use waits for room.
func (h *Handle) Wait() time.Duration { return h.wait }

// Profile is the vocabulary that the connection must speak; nil is any.
func (h *Handle) Profile() *provider.Profile { return h.profile }

// Check returns CONNECTION_INVALID for malformed names, an unknown Fresh, and a
// setup that has no JSON form or holds secrets.
func (h *Handle) Check() error {
	for _, name := range []Name{h.name, h.From()} {
		if err := name.Check(); err != nil {
			return err
		}
	}
	invalid := func(hint, format string, args ...any) error {
		return fault.New(fault.ConnectionInvalid, format, args...).At(string(h.name), "").WithHint("%s", hint)
	}
	switch h.fresh {
	case Shared, FreshRun, FreshPath:
	default:
		return invalid("Use connection.FreshRun or connection.FreshPath.", "HandleOptions.Fresh %s is unknown", fault.Quote(string(h.fresh)))
	}
	if h.err != nil {
		return invalid("Use a struct or a map.", "HandleOptions.Setup cannot be written as JSON: %w", h.err)
	}
	if _, marked, err := secrets.Extract(h.setup); len(h.setup) > 0 && (err != nil || len(marked) > 0) {
		return invalid("Fill secrets in by a call, which passes the gates.", "HandleOptions.Setup holds a secret")
	}
	return nil
}

// Tools picks operations of the handle's connection for a model step, as the
// function [Tools].
func (h *Handle) Tools(ops ...string) Pick {
	p := Tools(h.name, ops...)
	p.handle = h
	return p
}
