package gates

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/glob"
	"github.com/bridle-dev/bridle/secrets"
)

// Audit says where calls are written down: one record for each call, of
// whoever's, refused ones included.
type Audit struct {
	// Sinks keep the records, each all of them. Default none.
	Sinks []Sink
	// Required makes the record a condition of every call. It is written in two
	// parts: before the call is sent, that it will be, and afterwards what came of
	// it. If a sink fails at the first, the call ends with audit_failed and
	// nothing is sent. If one fails at the second, the call has happened and its
	// outcome stands: the failure is logged as an error and comes beside it.
	//
	// Otherwise there is one record, at the end, and a sink that fails is logged.
	Required bool
	// RequiredFor is Required for some operations and reads only: patterns over
	// "<connection>.<operation>", or just the name of a Go tool, in which *
	// matches anything. A private connection matches by its pool's name as well.
	RequiredFor []string
}

// CheckAudit reports an Audit that cannot mean what was written, a sink that is
// nil, an empty pattern, or records that are required and go nowhere, as
// HARNESS_INVALID.
func CheckAudit(a Audit) error {
	switch {
	case slices.Contains(a.Sinks, nil):
		return fault.New(fault.HarnessInvalid, "a nil sink in Audit.Sinks").WithHint("Leave it out, or make one.")
	case slices.Contains(a.RequiredFor, ""):
		return fault.New(fault.HarnessInvalid, "an empty pattern in Audit.RequiredFor").
			WithHint("Name an operation as \"<connection>.<operation>\", or leave the list out.")
	case len(a.Sinks) == 0 && (a.Required || len(a.RequiredFor) > 0):
		return fault.New(fault.HarnessInvalid, "records are required and there is no sink").
			WithHint("Give Audit.Sinks a gates.StoreSink, or require nothing.")
	}
	return nil
}

// sinkTimeout bounds how long a call waits for its record: longer than a disk
// that is busy, shorter than people's patience.
const sinkTimeout = 10 * time.Second

// auditor writes the records of a chain. A nil auditor writes none.
type auditor struct {
	audit Audit
	scrub *secrets.Scrubber
	log   *slog.Logger
}

// newAuditor returns nil if there is nowhere to write to.
func newAuditor(a Audit, scrub *secrets.Scrubber, log *slog.Logger) *auditor {
	if len(a.Sinks) == 0 {
		return nil
	}
	a.Sinks, a.RequiredFor = slices.Clone(a.Sinks), slices.Clone(a.RequiredFor)
	return &auditor{audit: a, scrub: scrub, log: log}
}

// requires reports whether a call must not be sent without its record.
func (a *auditor) requires(c *Call) bool {
	if a.audit.Required || len(a.audit.RequiredFor) == 0 {
		return a.audit.Required
	}
	if c.Connection == "" {
		return glob.Any(a.audit.RequiredFor, c.Op)
	}
	return glob.Any(a.audit.RequiredFor, string(c.Connection)+"."+c.Op) ||
		c.Pool != "" && glob.Any(a.audit.RequiredFor, string(c.Pool)+"."+c.Op)
}

// write hands a record to all sinks. An error is audit_failed.
func (a *auditor) write(ctx context.Context, r *Record) error {
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	kept := r.clipped()
	var failed []error
	for _, sink := range a.audit.Sinks {
		own := kept
		own.Gates = slices.Clone(kept.Gates)
		if err := a.hand(ctx, sink, &own); err != nil {
			failed = append(failed, a.scrub.Error(err))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return bounded(&fault.Error{Code: fault.AuditFailed, Err: fmt.Errorf("the record of the call was not kept: %w", errors.Join(failed...))})
}

func (a *auditor) hand(ctx context.Context, sink Sink, r *Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Panicked, "the sink panicked: %s", fault.Quote(a.scrub.String(fmt.Sprint(p))))
		}
	}()
	return sink.Write(ctx, r)
}
