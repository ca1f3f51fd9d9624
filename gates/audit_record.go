package gates

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Phase says what a record is about.
type Phase string

// The phases. They are persisted; the list is append-only.
const (
	// PhaseOutcome is the end of a call: the one record of most calls.
	PhaseOutcome Phase = "outcome"
	// PhaseIntent is a call that is about to be sent, written where the record is
	// required. One without an outcome after it was cut short.
	PhaseIntent Phase = "intent"
	// PhaseRepair is about the log itself: what a crash left half written was set
	// aside. Error says where.
	PhaseRepair Phase = "repair"
)

const (
	maxRecordError = 1 << 10 // bytes of the text of a failure
	maxRecordText  = 256     // bytes of every other text, which are names and ids
	maxRecordGates = 16      // more than there are
	usualGates     = 8
)

// Record says what became of one call: who asked for what, which gates it
// passed and how it ended. It holds no argument and no result, only a digest of
// what was sent. Texts are redacted, and cut at 1 KiB for Error and at 256 bytes
// for all others.
type Record struct {
	// ID is random, and the same in the intent and the outcome of one call.
	ID    string `json:"id,omitempty"`
	Phase Phase  `json:"phase"`
	// Time is when the record was made, in UTC.
	Time time.Time `json:"time"`

	// What was called, and for whom, as in Call.
	Connection connection.Name      `json:"connection,omitempty"`
	Op         string               `json:"op,omitempty"`
	Source     Source               `json:"source,omitempty"`
	Thread     provider.ThreadID    `json:"thread,omitempty"`
	Execution  provider.ExecutionID `json:"execution,omitempty"`
	Step       string               `json:"step,omitempty"`
	CallID     string               `json:"callId,omitempty"`
	Key        provider.Key         `json:"key,omitempty"`
	// ArgsDigest is the SHA-256 of the arguments in canonical form, in which
	// secrets are still names: "sha256:" and 64 hexadecimal digits.
	ArgsDigest string `json:"args,omitempty"`

	// Gates are those that were asked, in order; one that did not allow the call
	// is the last.
	Gates []GateOutcome `json:"gates,omitempty"`
	// Approval is the id of the approval that let the call through, By who gave
	// it; "" if none was needed.
	Approval string `json:"approval,omitempty"`
	By       string `json:"by,omitempty"`

	// Sent tells that the peer was asked, whatever came of it; false in an intent.
	Sent bool `json:"sent"`
	// Duration is how long the peer took, in nanoseconds.
	Duration time.Duration `json:"durationNs,omitempty"`
	// Outcome is the code of the failure. In an outcome "" is success.
	Outcome fault.Code `json:"outcome"`
	// Error is the failure in words, Bytes the length of the result as in Usage.
	Error string `json:"error,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`

	// Seq, Prev and Hash are set by the sink that keeps the record: its place,
	// from 1 on, the hash of the record before it, "" for the first, and the hash
	// of its own canonical JSON with everything but Hash.
	Seq  int64  `json:"seq,omitempty"`
	Prev string `json:"prev,omitempty"`
	Hash string `json:"hash,omitempty"`
}

// GateOutcome is what one gate said.
type GateOutcome struct {
	// Gate is its name, as in Outcome.Gate.
	Gate string `json:"gate"`
	// Verdict is Allow for a gate that was passed.
	Verdict Verdict `json:"verdict"`
	// Reason says why, where there was a choice.
	Reason string `json:"reason,omitempty"`
}

// newRecord starts the record of a call.
func newRecord(c *Call) Record {
	return Record{
		ID: rand.Text(), Connection: c.Connection, Op: c.Op, Source: c.Source, Thread: c.Thread,
		Execution: c.Execution, Step: c.Step, CallID: c.CallID, Key: c.Key,
		Gates: make([]GateOutcome, 0, usualGates),
	}
}

// digestOf is a SHA-256 with its name.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return digestName + hex.EncodeToString(sum[:])
}

const (
	digestName = "sha256:"
	digestLen  = len(digestName) + 2*sha256.Size
)

// clipped is the record with its texts at their sizes and in valid UTF-8. It
// shares no memory with r.
func (r *Record) clipped() Record {
	c := *r
	c.Time = c.Time.UTC().Round(0)
	c.Error = clip(c.Error, maxRecordError)
	clipAll(&c.ID, &c.Op, &c.Step, &c.CallID, &c.ArgsDigest, &c.Approval, &c.By)
	clipAll(&c.Phase)
	clipAll(&c.Connection)
	clipAll(&c.Source)
	clipAll(&c.Thread)
	clipAll(&c.Execution)
	clipAll(&c.Key)
	clipAll(&c.Outcome)
	c.Gates = make([]GateOutcome, 0, len(r.Gates))
	for _, g := range r.Gates[:min(len(r.Gates), maxRecordGates)] {
		clipAll(&g.Gate, &g.Reason)
		clipAll(&g.Verdict)
		c.Gates = append(c.Gates, g)
	}
	return c
}

func clipAll[T ~string](texts ...*T) {
	for _, text := range texts {
		*text = T(clip(string(*text), maxRecordText))
	}
}

// clip shortens a text to limit bytes, the mark for what is left out included,
// and makes it valid UTF-8. Clipping twice changes nothing.
func clip(text string, limit int) string {
	const mark = "…"
	valid := strings.ToValidUTF8(text[:min(len(text), 4*limit)], "\uFFFD")
	if len(text) <= 4*limit && len(valid) <= limit {
		return valid
	}
	end := min(len(valid), limit-len(mark))
	for end > 0 && end < len(valid) && !utf8.RuneStart(valid[end]) {
		end--
	}
	return valid[:end] + mark
}

// Sink keeps records.
type Sink interface {
	// Write keeps one record and returns once it is kept. It may be called
	// concurrently, must return when ctx ends, and must not change or keep the
	// record. An error means that the record may be missing; nobody tries again.
	Write(context.Context, *Record) error
}
