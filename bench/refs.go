package main

import (
	"context"
	"encoding/json"

	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/store"
)

func refsFigures() []figure {
	return []figure{
		{
			name: "refs/seal-open", unit: "µs", target: 2,
			about: "a volatile reference of 30 bytes in a scope with an instance, sealed and opened",
			open:  func(ctx context.Context, _ plan) (*rig, error) { return refsRig(ctx, sealAndOpen) },
		},
		{
			name: "refs/open-args", unit: "µs",
			about: "decoded arguments searched for references: one is found, read, opened and replaced by its id",
			open:  func(ctx context.Context, _ plan) (*rig, error) { return refsRig(ctx, openArgs) },
		},
	}
}

// refsRig measures what is done with the keys of a store in memory.
func refsRig(ctx context.Context, make func(*refs.Keys, refs.Scope) (func(context.Context) error, error)) (*rig, error) {
	db := store.Memory()
	keys, err := refs.OpenKeys(ctx, db)
	if err != nil {
		return nil, err
	}
	op, err := make(keys, refs.Scope{Connection: "browser", Thread: "thread-0123456789", Instance: "page-0123456789"})
	if err != nil {
		return nil, err
	}
	return &rig{subject: timed(1, op), close: func() { _ = db.Close() }}, nil
}

func elementRef() refs.Ref { return refs.New("element", "button-0123456789-0123456789-0") }

func sealAndOpen(keys *refs.Keys, scope refs.Scope) (func(context.Context) error, error) {
	ref := elementRef()
	return func(context.Context) error {
		sealed, err := keys.Seal(ref, scope, true)
		if err != nil {
			return err
		}
		return keys.Open(sealed, scope)
	}, nil
}

func openArgs(keys *refs.Keys, scope refs.Scope) (func(context.Context) error, error) {
	sealed, err := keys.Seal(elementRef(), scope, true)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"target": sealed, "text": "buy milk", "tags": []string{"home", "shop"}})
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	open := func(_ string, r refs.Ref, malformed error) (any, error) {
		if malformed != nil {
			return nil, malformed
		}
		return r.ID(), keys.Open(r, scope)
	}
	return func(context.Context) error {
		_, _, err := refs.Find(tree, open)
		return err
	}, nil
}
