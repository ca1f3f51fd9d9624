package mcpserver

import (
	"log/slog"
	"slices"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// Options configure a Kit. The zero value works for a server without once
// operations. They are copied by New; what they point to must not change.
type Options struct {
	// Store keeps the keys of once operations, and is what Commit writes to.
	// It needs no place of its own: the kit's buckets begin with "mcpserver/".
	// Results are kept in it as they are. Required if an operation is once.
	Store store.Store
	// Profiles are the vocabularies that the server speaks. Their operations
	// keep the profile's schemas, hints and facts.
	Profiles []*provider.Profile
	// Extensions are vocabularies with reverse-DNS names, treated alike.
	Extensions []*provider.Profile
	// Operations describe operations that no profile has, by Name. Hints must
	// say ReadOnly true, or Destructive. Facts that say Once make it so. Nil
	// schemas are made of the handler's types. The kit keeps to these facts, but
	// hosts take facts from profiles alone: to them such a server is only safe
	// to ask again if somebody tells them.
	Operations []provider.Operation
	// Repeatable names once operations whose handler may be run again under a
	// key whose first run died without an outcome: those whose whole effect is
	// inside Commit, and those that hand the key on to something that honours
	// it. Operations with facts that say Idempotent count as well.
	Repeatable []string
	// Identity says which incarnation of a thing this server drives, now. It is
	// called with each answer, so it must be quick, and may be called
	// concurrently. Nil, or an identity without an instance, declares none: the
	// server then counts as the same one for ever.
	Identity func() provider.Identity
	// Determinism is what recorded results are worth once the thing was
	// replaced; "" is unsafe.
	Determinism provider.Determinism
	// KeepKeys is how long a key is remembered, from when it was first seen;
	// 0 is 7 days. After that it is a new key.
	KeepKeys time.Duration
	// MaxKeys bounds how many keys are remembered at a time; 0 is 1,000,000.
	// Calls with further keys are refused until old ones expire: forgetting
	// one early would break its promise.
	MaxKeys int
	// MaxText is the size in bytes above which the text that shows a result is
	// cut, with a notice; 0 is 64 KiB. The structured result is always whole.
	MaxText int
	// Logger takes remarks about the store; nil is silent.
	Logger *slog.Logger
}

const (
	defaultKeepKeys = 7 * 24 * time.Hour // as long as a run may wait to be resumed
	defaultMaxKeys  = 1_000_000          // some hundred bytes each
	defaultMaxText  = 64 << 10
)

// normal is a copy with every default filled in.
func (o *Options) normal() Options {
	var n Options
	if o != nil {
		n = *o
	}
	n.Profiles = slices.Clone(n.Profiles)
	n.Extensions = slices.Clone(n.Extensions)
	n.Operations = slices.Clone(n.Operations)
	n.Repeatable = slices.Clone(n.Repeatable)
	if n.KeepKeys == 0 {
		n.KeepKeys = defaultKeepKeys
	}
	if n.MaxKeys == 0 {
		n.MaxKeys = defaultMaxKeys
	}
	if n.MaxText == 0 {
		n.MaxText = defaultMaxText
	}
	if n.Logger == nil {
		n.Logger = slog.New(slog.DiscardHandler)
	}
	return n
}
