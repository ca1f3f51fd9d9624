package main

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/triggers"
)

// source is where executions are read from: a file, or a harness that runs.
type source interface {
	// runs yields the executions after an id, "" for all, in the order of their ids.
	runs(ctx context.Context, after string) iter.Seq2[*execution, error]
	// run returns one, with its input and what it came to. One that there is not is
	// EXECUTION_UNKNOWN.
	run(ctx context.Context, id string) (*outcome, error)
	// entries yields the entries of one. Without values their outputs are left out.
	entries(ctx context.Context, id string, values bool) iter.Seq2[*entry, error]
	// waiting returns at most so many of the approvals that wait for a decision,
	// soonest to run out first.
	waiting(ctx context.Context, limit int) ([]*approval, error)
	// messages yields the events of an inbox as they were accepted, without their
	// payloads.
	messages(context.Context, triggers.InboxFilter) iter.Seq2[*message, error]
	// message returns one. One that there is not is EXECUTION_UNKNOWN.
	message(ctx context.Context, id string) (*message, error)
	close() error
}

// The types are those of Admin's answers.
type (
	execution struct {
		ledger.Execution
		Live bool `json:"live"` // it runs in the harness that is asked
	}
	outcome struct {
		Execution execution       `json:"execution"`
		Input     json.RawMessage `json:"input"`
		Output    json.RawMessage `json:"output"`
		Failure   *fault.Error    `json:"failure"`
	}
	entry struct {
		ledger.Entry
		ArgsBytes   int `json:"argsBytes"` // of what was left out, too
		OutputBytes int `json:"outputBytes"`
		ItemsBytes  int `json:"itemsBytes"`
	}
)

// open returns what to read from.
func (c *command) open(ctx context.Context) (source, error) {
	switch {
	case c.socket != "":
		return c.dial(c.verb.name)
	case c.store != "":
		return openFile(ctx, c.store, c.now)
	}
	return nil, misuse("nothing to read from").
		hint("Name a store file with -store or BRIDLE_STORE, or the socket of a harness that runs with -socket or BRIDLE_SOCKET.")
}

// find returns the execution that an id, or the beginning of one, names.
func find(ctx context.Context, src source, id string) (*outcome, error) {
	found, err := src.run(ctx, id)
	if err == nil || !isMissing(err) {
		return found, err
	}
	missing := err
	var fits []string
	for x, err := range src.runs(ctx, id) {
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(string(x.ID), id) {
			break
		}
		fits = append(fits, string(x.ID))
	}
	full, err := only("execution", id, fits)
	switch {
	case err != nil:
		return nil, err
	case full == "":
		return nil, missing
	}
	return src.run(ctx, full)
}

// isMissing reports whether an error says that there is nothing of that id.
func isMissing(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.Exit == exitMissing || fault.CodeOf(err) == fault.ExecutionUnknown
}

// among is only for a list of everything that has an id.
func among[T any](what, short string, all []T, id func(T) string) (string, error) {
	var fits []string
	for _, one := range all {
		if strings.HasPrefix(id(one), short) {
			fits = append(fits, id(one))
		}
	}
	return only(what, short, fits)
}

// only returns the one name that a shortened one stands for, "" if there is none.
func only(what, short string, fits []string) (string, error) {
	switch {
	case len(fits) == 0 || short == "":
		return "", nil
	case len(fits) > 1:
		return "", misuse("%d %ss begin with %s: %s", len(fits), what, fault.Quote(short), fault.Names(fits)).
			hint("Write more of the id.")
	}
	return fits[0], nil
}
