package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// Commit runs f in a transaction of Options.Store that also records what f
// returns as the outcome of the call: either both are there afterwards, or
// neither, wherever the process dies. That outcome is the answer to the call and
// to every repetition of its key, whatever the handler does next. If the key has
// an outcome by now, from another process, f does not run and that one is
// returned.
//
// f may run more than once and must do nothing but write to its transaction. Its
// result must fit the operation's schema. After an error nothing was written; a
// handler of a once operation that did nothing else says so with
// provider.Refused. A call without a promise, of an operation that is not once
// or without a key, gets the transaction all the same. Commit works once in a
// call.
func Commit[Result any](ctx context.Context, c *Call, f func(store.Tx) (Result, error)) (Result, error) {
	var result, none Result
	earlier, err := c.commit(ctx, func(tx store.Tx) (any, error) {
		var err error
		result, err = f(tx)
		return result, err
	})
	if err != nil {
		return none, err
	}
	if earlier != nil {
		result = none // f may have run in an attempt that came to nothing
		err = json.Unmarshal(earlier.Value, &result)
	}
	return result, err
}

// commit returns the outcome that an earlier call left, nil if it is f's.
func (c *Call) commit(ctx context.Context, f func(store.Tx) (any, error)) (earlier *outcome, err error) {
	switch {
	case c.kit.keys == nil:
		return nil, fault.New(fault.ProviderInvalid, "there is nothing to commit to").WithHint("Set Options.Store.")
	case c.committed != nil:
		return nil, fault.New(fault.ProviderInvalid, "the call was committed before").WithHint("Write everything in one Commit.")
	}
	var kept *outcome
	err = c.kit.keys.store.Update(ctx, func(tx store.Tx) (err error) {
		kept, earlier, err = c.carryOut(tx, f)
		return err
	})
	if errors.Is(err, errFull) {
		return nil, provider.Refused(codeFull, "the server remembers as many keys as it may")
	}
	if err != nil {
		return nil, err
	}
	c.committed = kept
	return earlier, nil
}

// carryOut is one attempt at a commit.
func (c *Call) carryOut(tx store.Tx, f func(store.Tx) (any, error)) (kept, earlier *outcome, err error) {
	var old *record
	if c.entry != nil {
		if old, err = load(tx, c.entry); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case old == nil:
	case old.Print != c.entry.print:
		return nil, nil, provider.Refused(codeReused, "the key was used for another call")
	case old.Outcome != nil:
		return old.Outcome, old.Outcome, nil
	}
	result, err := f(tx)
	if err != nil {
		return nil, nil, err
	}
	if kept, err = c.op.encode(result); err == nil && c.entry != nil {
		err = c.kit.keys.put(tx, c.entry, old, kept)
	}
	return kept, nil, err
}
