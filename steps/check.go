package steps

import (
	"errors"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
)

// Check finds the mistakes in a tree of steps that can be found without running
// it, and returns all of them joined: STEP_INVALID for missing or contradictory
// fields and malformed ids, CONNECTION_INVALID for malformed connection names,
// TOOL_INVALID for tools. Each names the step, by the ids that lead to it, and
// the remedy. Steps that only code makes are checked when they are run.
func Check(s Step) error {
	var r report
	r.step("step", s)
	return r.err()
}

// report collects what is wrong with a tree of steps.
type report struct {
	trail []ID // of the step being checked and those around it
	nest  nesting
	errs  []error
}

// err is everything found, nil if nothing was.
func (r *report) err() error {
	if len(r.errs) == 1 {
		return r.errs[0]
	}
	return errors.Join(r.errs...)
}

// step checks a step that another one, or nobody, needs in its field.
func (r *report) step(field string, s Step) {
	if missing(s) {
		r.invalid(field+" is nil", "Set "+field+" to a step.")
		return
	}
	if !r.nest.enter() {
		if r.nest.first() {
			r.invalid("steps are nested too deep, or a step contains itself", "Use a Loop to run a step again.")
		}
		return
	}
	defer r.nest.leave()
	id := s.StepID()
	r.trail = append(r.trail, id)
	r.id(id)
	s.check(r)
	r.trail = r.trail[:len(r.trail)-1]
}

// optional checks a step that may be left out.
func (r *report) optional(field string, s Step) {
	if s != nil {
		r.step(field, s)
	}
}

// inner checks the step that a wrapper of the same id stands for.
func (r *report) inner(s Step) {
	if missing(s) {
		r.invalid("the wrapped step is nil", "Wrap a step.")
		return
	}
	if r.nest.enter() {
		defer r.nest.leave()
		s.check(r)
	}
}

func (r *report) id(id ID) {
	if validID(id) {
		return
	}
	r.invalid("step id "+fault.Quote(string(id))+" is malformed",
		`Use 1 to 128 characters without ":", "/", "#", brackets, spaces or control characters.`)
}

func validID(id ID) bool {
	const limit = 128
	if id == "" || utf8.RuneCountInString(string(id)) > limit || !utf8.ValidString(string(id)) {
		return false
	}
	for _, c := range string(id) {
		if strings.ContainsRune(":/#[](){}<>", c) || unicode.IsSpace(c) || !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}

// place is where the trail leads, for Error.Step.
func (r *report) place() string {
	parts := make([]string, len(r.trail))
	for i, id := range r.trail {
		parts[i] = string(id)
		if !validID(id) {
			parts[i] = fault.Quote(parts[i])
		}
	}
	return strings.Join(parts, "/")
}

func (r *report) invalid(text, hint string) {
	e := fault.New(fault.StepInvalid, "%s", text).WithHint("%s", hint)
	e.Step = r.place()
	r.errs = append(r.errs, e)
}

// add keeps an error of another package, placed at the step.
func (r *report) add(err error) {
	if err == nil {
		return
	}
	e := *fault.From(err, fault.StepInvalid)
	if e.Step == "" {
		e.Step = r.place()
	}
	r.errs = append(r.errs, &e)
}

func (r *report) notNegative(field string, n int) {
	if n < 0 {
		r.invalid(field+" is negative", "Use 0 for the default, or a positive number.")
	}
}

func (r *report) timeout(d time.Duration) {
	if d < 0 {
		r.invalid("Timeout is negative", "Use 0 for no bound of its own, or a positive duration.")
	}
}

func (r *report) required(field, value string) {
	if value == "" {
		r.invalid(field+" is empty", "Set "+field+".")
	}
}

func (r *report) connection(name connection.Name, h *connection.Handle) {
	switch {
	case name == "" && h == nil:
		r.invalid("neither Connection nor Handle is set", "Set one of them.")
	case name != "" && h != nil:
		r.invalid("both Connection and Handle are set", "Keep one of them.")
	case h != nil:
		r.add(h.Check())
	default:
		r.add(name.Check())
	}
}

func (r *report) tool(field string, t Tool) {
	switch t := t.(type) {
	case *FuncTool:
		r.add(t.Check())
	case connection.Pick:
		r.add(t.Check())
	case *connection.Pick:
		if t == nil {
			r.invalid(field+" is nil", "Remove it, or set it to a tool.")
			return
		}
		r.add(t.Check())
	case nil:
		r.invalid(field+" is nil", "Remove it, or set it to a tool.")
	default:
		r.invalid(field+" is a "+reflect.TypeOf(t).String(), "Use NewTool, connection.Tools or connection.Attach.")
	}
}

// nesting follows the way down a tree of steps, and gives up where the tree
// turns out to have no bottom.
type nesting struct {
	depth     int
	exhausted bool
	told      bool
}

const maxDepth = 200 // of steps in steps; far beyond what a person writes

func (n *nesting) enter() bool {
	if n.depth >= maxDepth {
		n.exhausted = true
	}
	if n.exhausted {
		return false
	}
	n.depth++
	return true
}

func (n *nesting) leave() { n.depth-- }

// first reports whether exhaustion has not been told before.
func (n *nesting) first() bool {
	told := n.told
	n.told = true
	return !told
}
