package main

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// file is a store file that nothing has open to write it.
type file struct {
	store  store.Store
	ledger *ledger.Ledger
	now    func() time.Time
}

// openFile opens a store to be read.
func openFile(ctx context.Context, path string, now func() time.Time) (*file, error) {
	if err := present(path); err != nil {
		return nil, err
	}
	s, err := bolt.Open(path, &bolt.Options{ReadOnly: true})
	if errors.Is(err, fault.StoreHeld) {
		return nil, fail(exitUnreachable, string(fault.StoreHeld), "store %s is open elsewhere", fault.Quote(path)).
			hint("Ask the harness that has it open: -socket or BRIDLE_SOCKET names the socket on which it serves Admin.")
	}
	if err != nil {
		return nil, err
	}
	l, err := ledger.Open(ctx, readOnly{s})
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return &file{s, l, now}, nil
}

// present reports why there is no file at path, if so.
func present(path string) error {
	quoted := fault.Quote(path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(exitUnreachable, "store_missing", "there is no store %s", quoted).
			hint("Name the file that the program opens as its store. Nothing was created.")
	case err != nil:
		return fail(exitUnreachable, string(fault.StoreFailed), "store %s cannot be read: %v", quoted, err)
	case !info.Mode().IsRegular():
		return fail(exitUnreachable, string(fault.StoreUnsupported), "%s is not a regular file", quoted).
			hint("A socket is named with -socket.")
	}
	return nil
}

// readOnly is a store that says what is missing in it instead of beginning it.
type readOnly struct{ store.Store }

// Update implements store.Store. It is only ever called to begin a ledger.
func (readOnly) Update(context.Context, func(store.Tx) error) error {
	return fail(exitUnreachable, "no_ledger", "the store has no record of executions").
		hint("A harness records them if the store is its Config.Store.")
}

func (f *file) close() error { return f.store.Close() }

func (f *file) runs(ctx context.Context, after string) iter.Seq2[*execution, error] {
	return func(yield func(*execution, error) bool) {
		for x, err := range f.ledger.ExecutionsAfter(ctx, provider.ExecutionID(after)) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&execution{Execution: *x}, nil) {
				return
			}
		}
	}
}

func (f *file) run(ctx context.Context, id string) (*outcome, error) {
	x, ok, err := f.ledger.Execution(ctx, provider.ExecutionID(id))
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fault.New(fault.ExecutionUnknown, "there is no execution %s", fault.Quote(id)).
			WithHint("bridle runs lists those there are; ended ones are kept for a limited time.")
	}
	o := &outcome{Execution: execution{Execution: *x}}
	if o.Input, err = f.ledger.Input(ctx, x.ID); err != nil {
		return nil, err
	}
	o.Output, o.Failure, _, err = f.ledger.Result(ctx, x.ID)
	return o, err
}

func (f *file) entries(ctx context.Context, id string, values bool) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		for e, err := range f.ledger.Entries(ctx, provider.ExecutionID(id)) {
			if err != nil {
				yield(nil, err)
				return
			}
			out := &entry{*e, len(e.Args), len(e.Output), len(e.Items)}
			if !values {
				out.Output, out.Items = nil, nil
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}
