package gates

import (
	"context"
	"errors"
	"slices"

	"github.com/bridle-dev/bridle/fault"
)

const (
	maxErrorText = 32 << 10 // bytes that a peer can say about its failure
	maxErrorPart = 4 << 10  // bytes of a hint or a finding, which say one thing
	maxIssues    = 20       // more than anybody reads
)

// bounded cuts the texts of an error that are too long for a log, a record or a
// model. Codes and the other fields of every error it wraps stay.
func bounded(err error) error {
	if err == nil {
		return nil
	}
	if fe, ok := err.(*fault.Error); ok {
		return boundedFault(fe)
	}
	causes := matched(err)
	text := err.Error()
	if len(text) <= maxErrorText && !slices.ContainsFunc(causes, overlong) {
		return err
	}
	short := &shortError{text: cutTo(text, maxErrorText)}
	for _, cause := range causes {
		short.causes = append(short.causes, bounded(cause))
	}
	return short
}

// boundedFault leaves fe as it is: it may be shared.
func boundedFault(fe *fault.Error) *fault.Error {
	if !overlong(fe) {
		return fe
	}
	e := *fe
	e.Err = bounded(fe.Err)
	for _, part := range []*string{&e.Connection, &e.Op, &e.Step, &e.Hint, &e.PeerCode} {
		*part = cutTo(*part, maxErrorPart)
	}
	e.Issues = slices.Clone(fe.Issues[:min(len(fe.Issues), maxIssues)])
	for i := range e.Issues {
		e.Issues[i].Path = cutTo(e.Issues[i].Path, maxErrorPart)
		e.Issues[i].Message = cutTo(e.Issues[i].Message, maxErrorPart)
	}
	return &e
}

// overlong reports whether an error, or one below it, has something to cut. The
// text of a fault is that of its cause and its parts, and its record has all of
// its findings, of which the text shows the first.
func overlong(err error) bool {
	fe, ok := err.(*fault.Error)
	if !ok {
		return len(err.Error()) > maxErrorText || slices.ContainsFunc(matched(err), overlong)
	}
	if fe.Err != nil && overlong(fe.Err) || len(fe.Issues) > maxIssues {
		return true
	}
	for _, part := range []string{fe.Connection, fe.Op, fe.Step, fe.Hint, fe.PeerCode} {
		if len(part) > maxErrorPart {
			return true
		}
	}
	return slices.ContainsFunc(fe.Issues, func(i fault.Issue) bool { return len(i.Path)+len(i.Message) > maxErrorPart })
}

// matched are the outermost errors below err that are matched by what they are:
// faults, codes and the errors of contexts.
func matched(err error) []error {
	var below []error
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		below = append(below, err.Unwrap())
	case interface{ Unwrap() []error }:
		below = err.Unwrap()
	}
	var all []error
	for _, e := range below {
		switch e.(type) {
		case nil:
		case *fault.Error, fault.Code:
			all = append(all, e)
		default:
			all = append(all, matched(e)...)
		}
	}
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) && err != ended && !errors.Is(errors.Join(all...), ended) {
			all = append(all, ended)
		}
	}
	return all
}

func cutTo(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return cut(text, limit)
}

// shortError is an error whose text was cut.
type shortError struct {
	text   string
	causes []error
}

func (e *shortError) Error() string   { return e.text }
func (e *shortError) Unwrap() []error { return e.causes }
