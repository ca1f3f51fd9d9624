package steps

import (
	"encoding/json"
	"reflect"
)

type (
	// ID names a step among its siblings: 1 to 128 characters without ":", "/",
	// "#", brackets, spaces or control characters.
	ID string
	// Kind says what a step does: "call", "model", "sequence", …
	Kind string
	// Path is where a step runs within an execution: "/<id>#<n>" for each level,
	// n counting the runs of that id under its parent from 1. A path of a
	// Parallel puts its index in brackets behind the Parallel's own path. Paths
	// are stable: a resumed execution meets the same ones.
	Path string
	// None is the type of an input or output that holds nothing.
	None = struct{}
)

// The kinds of step. Others may be added.
const (
	KindCall     Kind = "call"
	KindWait     Kind = "wait"
	KindWaitAny  Kind = "wait_any"
	KindModel    Kind = "model"
	KindTool     Kind = "tool"
	KindFunc     Kind = "func"
	KindRecord   Kind = "record"
	KindTry      Kind = "try"
	KindSequence Kind = "sequence"
	KindParallel Kind = "parallel" // also of the fork of each path
	KindIf       Kind = "if"
	KindLoop     Kind = "loop"
	KindSpawn    Kind = "spawn" // also of the child's fork
	KindDelay    Kind = "delay" // between two attempts of a Retry
)

// Step is one resumable unit of work. Only this package makes steps; they are
// values without state and may be run many times and concurrently. A pointer
// to a step is a step too.
type Step interface {
	// StepID is the step's name among its siblings.
	StepID() ID
	// Kind says what the step does.
	Kind() Kind
	run(c Context, input json.RawMessage) (json.RawMessage, error)
	visit(v *Visitor)
	check(r *report)
}

// Typed is a Step whose output is an Out.
type Typed[Out any] interface {
	Step
	decode(json.RawMessage) (Out, error)
}

// missing reports whether s is nil or a nil pointer, on which no method can be
// called.
func missing(s Step) bool {
	if s == nil {
		return true
	}
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
