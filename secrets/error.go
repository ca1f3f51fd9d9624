package secrets

import (
	"context"
	"errors"

	"github.com/bridle-dev/bridle/fault"
)

// Error returns err with every registered value replaced in its text and in
// everything it wraps; err itself if it holds none. Codes survive, so errors.Is
// answers as before for fault codes and context errors, and *fault.Error is
// still found. Any other error with a value in its text, or in that of an error
// it wraps, becomes plain text: nothing that Unwrap reaches holds the value.
func (s *Scrubber) Error(err error) error {
	if err == nil || s.matcher().stride == 0 {
		return err
	}
	clean, _ := s.scrubError(err)
	return clean
}

func (s *Scrubber) scrubError(err error) (clean error, changed bool) {
	if fe, ok := err.(*fault.Error); ok {
		return s.fault(fe)
	}
	text, changed := s.matcher().replace(err.Error())
	var causes []error
	for _, cause := range unwrap(err) {
		c, ch := s.scrubError(cause)
		causes = append(causes, c)
		changed = changed || ch
	}
	if !changed {
		return err, false
	}
	return &scrubbed{text: text, causes: append(causes, contextCodes(err, causes)...)}, true
}

func unwrap(err error) []error {
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if cause := err.Unwrap(); cause != nil {
			return []error{cause}
		}
	case interface{ Unwrap() []error }:
		return err.Unwrap()
	}
	return nil
}

// contextCodes keeps what err matched by a method of its own.
func contextCodes(err error, causes []error) []error {
	var codes []error
	for _, code := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, code) && !errors.Is(errors.Join(causes...), code) {
			codes = append(codes, code)
		}
	}
	return codes
}

func (s *Scrubber) fault(fe *fault.Error) (error, bool) {
	out := *fe
	changed := false
	for _, field := range []*string{&out.Connection, &out.Op, &out.Step, &out.Hint, &out.PeerCode} {
		changed = s.edit(field) || changed
	}
	out.Issues = append([]fault.Issue(nil), fe.Issues...)
	for i := range out.Issues {
		changed = s.edit(&out.Issues[i].Path) || changed
		changed = s.edit(&out.Issues[i].Message) || changed
	}
	if fe.Err != nil {
		cause, ch := s.scrubError(fe.Err)
		out.Err = cause
		changed = changed || ch
	}
	if !changed {
		return fe, false
	}
	return &out, true
}

func (s *Scrubber) edit(field *string) bool {
	text, hit := s.matcher().replace(*field)
	*field = text
	return hit
}

// scrubbed is the text of an error that held a value, with its clean causes.
type scrubbed struct {
	text   string
	causes []error
}

func (e *scrubbed) Error() string   { return e.text }
func (e *scrubbed) Unwrap() []error { return e.causes }
