package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
)

// States of executions and of their steps, as they are printed. They are a
// contract: docs/operating.md says what they mean.
const (
	stateRunning   = "running"
	stateCut       = "cut" // it ran when its process died
	stateDone      = "done"
	stateFailed    = "failed"
	stateCancelled = "cancelled"

	stateOK      = "ok"
	statePending = "pending" // a call that is in flight
	stateWaiting = "waiting" // for an event
	stateUnknown = "unknown" // it may have happened
)

// runView is an execution as it is printed.
type runView struct {
	Execution string    `json:"execution"`
	State     string    `json:"state"`
	Thread    string    `json:"thread"`
	Turn      bool      `json:"turn"`
	Messages  []string  `json:"messages,omitempty"`
	Step      string    `json:"step,omitempty"`
	Started   time.Time `json:"started"`
	Updated   time.Time `json:"updated"`
	Attempts  int       `json:"attempts"`
	Steps     int       `json:"steps,omitempty"`
	Approvals []string  `json:"approvals,omitempty"` // that it waits for
	Error     string    `json:"error,omitempty"`
	Kept      bool      `json:"kept,omitempty"` // it could not be taken up, and its messages wait
}

// await notes which approvals a run waits for.
func (v *runView) await(all []*approval) {
	for _, a := range all {
		if a.Execution == v.Execution {
			v.Approvals = append(v.Approvals, a.ID)
		}
	}
}

func viewRun(x *execution) *runView {
	v := &runView{Execution: string(x.ID), State: string(x.State), Thread: string(x.Thread), Turn: x.Turn, Messages: x.Messages,
		Step: x.Step, Started: x.Started.UTC(), Updated: x.Updated.UTC(), Attempts: x.Attempts, Steps: x.Steps, Error: x.Err, Kept: x.Kept}
	if x.State == ledger.Running && !x.Live {
		v.State = stateCut
	}
	return v
}

// stepView is an entry of an execution as it is printed.
type stepView struct {
	Path        string                       `json:"path"`
	Kind        string                       `json:"kind,omitempty"`
	State       string                       `json:"state"`
	Seq         int                          `json:"seq,omitempty"`
	Connection  string                       `json:"connection,omitempty"`
	Op          string                       `json:"op,omitempty"`
	Source      string                       `json:"source,omitempty"`
	Key         string                       `json:"key,omitempty"` // shortened
	Identity    provider.Identity            `json:"identity,omitzero"`
	Uses        map[string]provider.Identity `json:"uses,omitempty"`
	Approval    string                       `json:"approval,omitempty"`
	Task        string                       `json:"task,omitempty"`
	Lease       string                       `json:"lease,omitempty"`
	Cursor      string                       `json:"cursor,omitempty"`
	Deadline    time.Time                    `json:"deadline,omitzero"`
	Secrets     []ledger.Place               `json:"secrets,omitempty"`
	Started     time.Time                    `json:"started,omitzero"`
	Ended       time.Time                    `json:"ended,omitzero"`
	Failure     *failureView                 `json:"failure,omitempty"`
	Args        json.RawMessage              `json:"args,omitempty"`
	Output      json.RawMessage              `json:"output,omitempty"`
	Items       json.RawMessage              `json:"items,omitempty"`
	ArgsBytes   int                          `json:"argsBytes,omitempty"`
	OutputBytes int                          `json:"outputBytes,omitempty"`
	ItemsBytes  int                          `json:"itemsBytes,omitempty"`
}

// failureView is an error that is recorded.
type failureView struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// viewFailure is an error as it is printed beside the path at which it happened.
func viewFailure(e *fault.Error, path string) *failureView {
	if e == nil {
		return nil
	}
	bare := *e
	if bare.Hint = ""; bare.Step == path {
		bare.Step = ""
	}
	return &failureView{string(e.Code), bare.Error(), e.Hint}
}

// viewStep is an entry of an execution; live tells whether that still runs.
func viewStep(e *entry, id string, live bool) *stepView {
	v := &stepView{Path: e.Path, Kind: e.Kind, State: stateOf(e, live), Seq: e.Seq, Connection: e.Connection, Op: e.Op,
		Source: e.Source, Key: shortKey(string(e.Key), id), Identity: e.Identity, Uses: e.Uses, Approval: e.Approval, Task: string(e.Task),
		Lease: e.Lease, Cursor: string(e.Cursor), Deadline: utc(e.Deadline), Secrets: e.Secrets, Started: utc(e.Started), Ended: utc(e.Ended),
		Failure: viewFailure(e.Err, e.Path), Args: refs.WithoutSeals(e.Args), Output: refs.WithoutSeals(e.Output), Items: refs.WithoutSeals(e.Items),
		ArgsBytes: e.ArgsBytes, OutputBytes: e.OutputBytes, ItemsBytes: e.ItemsBytes}
	return v
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

// stateOf says what is known of an entry. A call that is pending in a run that
// was cut may have happened; a wait that is pending caused nothing, nor did a step
// of which only the deadline is known.
func stateOf(e *entry, live bool) string {
	switch {
	case e.Pending && (e.Kind == "wait" || e.Op == ""):
		return stateWaiting
	case e.Pending && live:
		return statePending
	case e.Pending, e.Err != nil && e.Op != "" && e.Err.Is(fault.OutcomeUnknown):
		return stateUnknown
	case e.Err != nil:
		return stateFailed
	}
	return stateOK
}

// maxKey is how many characters of a key are printed.
const maxKey = 24

// shortKey is a key without the id of its execution, which it begins with, and
// without its middle.
func shortKey(key, id string) string { return cut(strings.TrimPrefix(key, id+":"), maxKey) }

// thing is what a connection was connected to, in one word.
func thing(i provider.Identity) string {
	text := i.Instance
	if i.Surface != "" && !strings.HasPrefix(text, i.Surface) {
		text = i.Surface + " " + text
	}
	if i.Epoch != "" {
		text += "@" + i.Epoch
	}
	return text
}
