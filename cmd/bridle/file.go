package main

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"runtime"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// file is a store file that nothing else has open.
type file struct {
	store  store.Store
	ledger *ledger.Ledger
}

// smallest is less than any store file has: opening a smaller one, which a
// process left that died while it made it, would finish it.
const smallest = 16 << 10

// openFile opens a store to be read. It refuses where opening would create or
// change the file.
func openFile(ctx context.Context, path string) (*file, error) {
	if err := unchanged(path); err != nil {
		return nil, err
	}
	s, err := bolt.Open(path, nil)
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
	return &file{s, l}, nil
}

// unchanged reports why opening the file at path would not leave it as it is.
func unchanged(path string) error {
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
	case info.Size() < smallest:
		return fail(exitUnreachable, string(fault.StoreUnsupported), "%s has only %d bytes: no store has finished writing it", quoted, info.Size()).
			hint("Name the file that the program opens as its store.")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return fail(exitUnreachable, "store_exposed", "store %s can be read or written by others, and opening it would change its mode", quoted).
			hint("Take it from them with chmod 600, or copy it and read the copy.")
	}
	return nil
}

// readOnly keeps a store from being written to.
type readOnly struct{ store.Store }

// Update implements store.Store. It is only ever called to begin a ledger.
func (readOnly) Update(context.Context, func(store.Tx) error) error {
	return fail(exitUnreachable, "no_ledger", "the store has no record of executions").
		hint("A harness records them if the store is its Config.Store.")
}

func (f *file) close() error { return f.store.Close() }

// waiting implements source: nobody waits where nothing runs.
func (f *file) waiting(context.Context) ([]*approval, error) { return nil, nil }

func (f *file) runs(ctx context.Context) iter.Seq2[*execution, error] {
	return func(yield func(*execution, error) bool) {
		for x, err := range f.ledger.Executions(ctx) {
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
