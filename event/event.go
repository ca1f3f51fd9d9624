// Package event holds the one type for everything observable in Bridle. An
// [Event] is flat: its Type says which fields are set, so that a first program
// prints events and a later one switches on them without a type assertion.
//
//	for ev, err := range turn.Events(ctx) {
//		fmt.Println(ev) // 12:04:10.123  call_completed  notes.add  1.2ms
//	}
//
// # Which type sets what
//
// Every event has ID, Time and Type. Inside a run it has Thread and Execution,
// inside a step Step.
//
//	turn_started                                 nothing more
//	turn_completed                               Text (the answer), Duration, Usage
//	turn_aborted                                 Text (the reason), Duration, Err
//	message_accepted                             Text, Data["message"]
//	message_injected                             Round, Data["message"]
//	step_started, step_completed, step_replayed  Source (the step's kind), Duration, Err
//	model_started, model_completed               Round, Duration, Err, Usage
//	model_stalled                                Round, Duration (the silence)
//	text_delta, reasoning_delta                  Round, Text
//	item_appended                                Item
//	call_started, call_completed                 Connection, Op, Source, CallID, Key, Gate, Duration, Err
//	call_progress                                Connection, Op, Text, Data["done"], ["total"]
//	approval_requested, approval_decided         Connection, Op, Text, Data["approval"], ["verdict"], ["by"]
//	tool_started, tool_completed                 Op (the tool), Source, CallID, Key, Gate, Duration, Err
//	wait_started, wait_completed                 Connection, Op (the event), Gate, Duration, Err
//	connection_ready                             Connection, Data["operations"], ["identity"]
//	connection_unavailable                       Connection, Err, Duration (until the next attempt)
//	connection_replaced                          Connection, Data["was"], ["now"]
//	connection_manifest_changed                  Connection, Data["operations"]
//	connection_closed                            Connection
//	trigger_listening                            Connection, Op (the event), Source (the trigger), Gate, Duration, Err: it was tried to listen
//	lease_acquired                               Connection (the pool), Step, Duration (the wait), Data["lease"], ["fence"], ["instance"], ["resumed"]
//	lease_released                               Connection, Step, Duration (how long it was held), Err, Data["lease"], ["fence"]
//	lease_reclaimed                              Connection, Step, Text (why), Err, Data["lease"], ["fence"], ["owner"]
//	inbox_accepted                               Connection, Op (the event), Source (the trigger), Data["message"]
//	inbox_done                                   as inbox_accepted, and Duration (since it was accepted)
//	inbox_retried                                as inbox_accepted, and Duration (until the next attempt), Err
//	inbox_dead                                   as inbox_accepted, and Duration (since it was accepted), Err
//	inbox_dropped                                as inbox_accepted, and Text (the reason)
//	warning                                      Text, and where: Connection, Op, Step, Err
//	events_dropped                               Data["count"], of all threads together
//
// A call is one of an operation or a read. Its Source is "model" or "step"; Gate
// is the gate that refused it, "" if none did; that of a wait refused to listen.
//
// # Order and loss
//
// Events of one execution are in the order in which they happened; ids grow.
// A bounded number of past events is kept for late readers, and a reader that
// falls behind further than that gets one events_dropped in place of what it
// missed. Credentials that are known are replaced before an event is made, also
// where a model spells one out over several deltas: a piece that may be the
// beginning of one comes with the next.
package event

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
)

// Type says what happened. Types are append-only; ignore what you do not know.
type Type string

// The types; the package comment says which fields each sets.
const (
	TurnStarted               Type = "turn_started"
	TurnCompleted             Type = "turn_completed"
	TurnAborted               Type = "turn_aborted"
	MessageAccepted           Type = "message_accepted"
	MessageInjected           Type = "message_injected"
	StepStarted               Type = "step_started"
	StepCompleted             Type = "step_completed"
	StepReplayed              Type = "step_replayed"
	ModelStarted              Type = "model_started"
	ModelCompleted            Type = "model_completed"
	ModelStalled              Type = "model_stalled"
	TextDelta                 Type = "text_delta"
	ReasoningDelta            Type = "reasoning_delta"
	ItemAppended              Type = "item_appended"
	CallStarted               Type = "call_started"
	CallCompleted             Type = "call_completed"
	CallProgress              Type = "call_progress"
	ToolStarted               Type = "tool_started"
	ToolCompleted             Type = "tool_completed"
	WaitStarted               Type = "wait_started"
	WaitCompleted             Type = "wait_completed"
	ApprovalRequested         Type = "approval_requested"
	ApprovalDecided           Type = "approval_decided"
	ConnectionReady           Type = "connection_ready"
	ConnectionUnavailable     Type = "connection_unavailable"
	ConnectionReplaced        Type = "connection_replaced"
	ConnectionManifestChanged Type = "connection_manifest_changed"
	ConnectionClosed          Type = "connection_closed"
	TriggerListening          Type = "trigger_listening"
	LeaseAcquired             Type = "lease_acquired"
	LeaseReleased             Type = "lease_released"
	LeaseReclaimed            Type = "lease_reclaimed"
	InboxAccepted             Type = "inbox_accepted"
	InboxDone                 Type = "inbox_done"
	InboxRetried              Type = "inbox_retried"
	InboxDead                 Type = "inbox_dead"
	InboxDropped              Type = "inbox_dropped"
	Warning                   Type = "warning"
	EventsDropped             Type = "events_dropped"
)

// ID orders events of one harness: compare as text.
type ID string

// Event is something that happened. Receivers must not change what Item, Usage
// and Data point to: readers share it.
type Event struct {
	ID         ID
	Time       time.Time
	Type       Type
	Thread     provider.ThreadID
	Execution  provider.ExecutionID
	Step       string       // path of the step
	Connection string       // name of the connection
	Op         string       // operation, read, event or tool
	Source     string       // who asked: "model", "step"; a step's kind; or a trigger
	CallID     string       // the model's id of a call, made unique in the execution
	Key        provider.Key // the idempotency key of a call
	Gate       string       // which gate refused
	Round      int          // of a model step, from 1
	Text       string
	Item       *model.Item
	Usage      *model.Usage // tokens of a model round, or of a whole turn
	Duration   time.Duration
	Err        error
	Data       map[string]any
}

// String is a timeline line for people: time, type, place, and what there is to
// say. Its form may change.
func (e Event) String() string {
	var words []string
	if e.Round > 0 {
		words = append(words, fmt.Sprintf("round %d", e.Round))
	}
	if g := e.gates(); g != "" {
		words = append(words, g)
	}
	if text := e.text(); text != "" {
		words = append(words, shorten(text))
	}
	if e.Duration > 0 {
		words = append(words, e.Duration.Round(10*time.Microsecond).String())
	}
	if e.Err != nil {
		words = append(words, "error: "+shorten(e.Err.Error()))
	}
	line := fmt.Sprintf("%s  %-17s %-20s %s", e.Time.Format("15:04:05.000"), e.Type, e.place(), strings.Join(words, "  "))
	return strings.TrimRight(line, " ")
}

// text is what was said: by whom, if it is an item of the conversation.
func (e Event) text() string {
	if e.Item == nil {
		return e.Text
	}
	who := string(e.Item.Type)
	if e.Item.Type == model.Message {
		who = string(e.Item.Role)
	}
	return strings.TrimRight(strings.Join([]string{who, e.Item.Name, e.Item.Text()}, " "), " ")
}

// place is what an event is about: an operation, a connection or a step.
func (e Event) place() string {
	switch {
	case e.Connection != "" && e.Op != "":
		return e.Connection + "." + e.Op
	case e.Op != "":
		return e.Op
	case e.Connection != "":
		return e.Connection
	}
	return e.Step
}

// gates tells how a call fared at the gates.
func (e Event) gates() string {
	switch {
	case e.Gate != "":
		return "refused by gate " + e.Gate
	case e.Type != CallCompleted && e.Type != ToolCompleted:
		return ""
	case errors.Is(e.Err, fault.Unavailable), errors.Is(e.Err, fault.Closed):
		return "" // it never reached them
	}
	return "gates passed"
}

// shorten makes text fit a timeline line.
func shorten(s string) string {
	const limit = 100
	s = strings.Join(strings.Fields(s), " ")
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit]) + "…"
}

// Tracer follows the work of a harness as spans. A nil Tracer costs nothing.
// Start is called concurrently; the returned function ends the span and is
// called exactly once. span belongs to the Tracer until then.
type Tracer interface {
	Start(ctx context.Context, span *Span) (context.Context, func(error))
}

// Propagator is an optional ability of a Tracer: the W3C trace context of ctx,
// sent along with calls (traceparent, tracestate, baggage).
type Propagator interface {
	Propagate(ctx context.Context) map[string]string
}

// SpanKind says what a span covers.
type SpanKind string

// The kinds of span.
const (
	SpanTurn    SpanKind = "turn"
	SpanRun     SpanKind = "run"
	SpanModel   SpanKind = "model"
	SpanCall    SpanKind = "call" // of an operation or a read
	SpanTool    SpanKind = "tool"
	SpanWait    SpanKind = "wait"
	SpanConnect SpanKind = "connect"
)

// Span describes a piece of work as it starts.
type Span struct {
	Kind       SpanKind
	Name       string // operation, step id, model
	Thread     provider.ThreadID
	Execution  provider.ExecutionID
	Step       string
	Connection string
	Op         string
	Source     string
	Round      int
}
