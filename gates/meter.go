package gates

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Usage is what one call used. Every call counts, whatever became of it: one
// that a gate refused or that failed on its way has a code and no bytes.
type Usage struct {
	// Connection and Op say what was called; Connection is "" for a Go tool.
	Connection connection.Name
	Op         string
	// Thread, Execution, Source and Step say for whom.
	Thread    provider.ThreadID
	Execution provider.ExecutionID
	Source    Source
	Step      string

	// Calls is 1 for a call, a read and the start of listening.
	Calls int64
	// Bytes is the length of what the caller gets, in UTF-8 and with credentials
	// replaced: the structured value, or if there is none the texts and data of
	// the content. A failure has none.
	Bytes int64
	// Tokens are those a model used for the call, 0 where no model works.
	Tokens int64
	// Latency is how long the peer took; 0 if it was not asked.
	Latency time.Duration
	// Outcome is the code of the failure, "" for success.
	Outcome fault.Code
}

// Meter is told about every call. [Totals] is one that adds up.
type Meter interface {
	// Record takes the usage of one call, after it ended and before its caller
	// has the result. It may be called concurrently, must return quickly, and
	// cannot refuse: to limit what is used, see [Budget]. ctx may have ended.
	Record(context.Context, Usage)
}

// usageOf is what a call used. The outcome must have been redacted already.
func usageOf(c *Call, out *Outcome) Usage {
	return Usage{
		Connection: c.Connection, Op: c.Op, Thread: c.Thread, Execution: c.Execution, Source: c.Source, Step: c.Step,
		Calls: 1, Bytes: resultBytes(out), Latency: out.Duration, Outcome: outcomeCode(out),
	}
}

// outcomeCode counts an error without a code as one of the way to the peer.
func outcomeCode(out *Outcome) fault.Code {
	if out.Err == nil {
		return ""
	}
	return fault.From(out.Err, fault.OutcomeUnknown).Code
}

// resultBytes counts what came back once: servers repeat the structured value
// as text.
func resultBytes(out *Outcome) int64 {
	if out.Err != nil {
		return 0
	}
	if len(out.Value) > 0 {
		return int64(len(out.Value))
	}
	size := 0
	for i := range out.Content {
		size += len(out.Content[i].Text) + len(out.Content[i].Data)
	}
	return int64(size)
}
