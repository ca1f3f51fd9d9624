package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bridle-dev/bridle/fault"
)

// Exit codes. They are a contract: docs/operating.md lists them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitMissing     = 3
	exitUnreachable = 4
	exitRefused     = 5
	exitTimeout     = 6
	exitInterrupted = 130
)

// failure is an error as it is told: one JSON object, or two lines of text.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Exit    int    `json:"exit"`
}

func (f *failure) Error() string { return f.Message }

func (f *failure) hint(format string, args ...any) *failure {
	f.Hint = fmt.Sprintf(format, args...)
	return f
}

func fail(exit int, code, format string, args ...any) *failure {
	return &failure{Code: code, Message: fmt.Sprintf(format, args...), Exit: exit}
}

func misuse(format string, args ...any) *failure {
	return fail(exitUsage, "usage", format, args...).hint("bridle help lists the commands and flags.")
}

// report tells what went wrong and returns the exit code.
func report(ctx context.Context, w *world, asJSON bool, err error) int {
	f := explain(ctx, err)
	if asJSON {
		raw, err := json.Marshal(f)
		if err == nil {
			fmt.Fprintln(w.err, escapeJSON(string(raw)))
		}
		return f.Exit
	}
	fmt.Fprintln(w.err, "bridle: "+plain(f.Message))
	if f.Hint != "" {
		fmt.Fprintln(w.err, "  "+plain(f.Hint))
	}
	return f.Exit
}

// explain makes a failure of any error.
func explain(ctx context.Context, err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fail(exitTimeout, "timeout", "it took too long").hint("Give it more time with -timeout.")
	case ctx.Err() != nil:
		return fail(exitInterrupted, "interrupted", "interrupted")
	}
	f := fail(exitFailed, "failed", "%s", err)
	if fe, ok := errors.AsType[*fault.Error](err); ok {
		bare := *fe
		bare.Hint = ""
		f.Code, f.Message, f.Hint = string(fe.Code), bare.Error(), fe.Hint
	}
	switch fault.CodeOf(err) {
	case fault.ExecutionUnknown:
		f.Exit = exitMissing
	case fault.StoreUnsupported, fault.StoreFailed, fault.StoreHeld, fault.Closed:
		f.Exit = exitUnreachable
	}
	return f
}
