package steps

import (
	"encoding/json"
	"fmt"

	"github.com/bridle-dev/bridle/fault"
)

// Parallel runs steps side by side, each with the Parallel's input, a
// conversation copied from it and leases of its own.
//
// A failure that decides the outcome is a fork_partial error with an Issue for
// every path that did not succeed and the first failure underneath. When a path
// decides, the others are cancelled and waited for.
type Parallel struct {
	ID ID
	// Mode says when it is done. Default ModeAll.
	Mode Mode
	// Paths are the steps. Their ids differ.
	Paths []Step
	// PathsFrom makes the steps from the input instead. It must make the same
	// ones again when the execution is resumed; their ids may be the same.
	PathsFrom func(Context, json.RawMessage) ([]Step, error)
	// Limit is how many run at once. 0 is all.
	Limit int
	// Merge makes the output of the outcomes, in the order of the paths; of
	// ModeRace it gets the winner's alone. Default: the array of the outputs, for
	// ModeSettle of the outcomes, for ModeRace the winner's output.
	Merge func([]Outcome) (any, error)
}

// Mode says when a Parallel is done.
type Mode string

// The modes.
const (
	ModeAll    Mode = ""       // when all paths have succeeded; the first failure fails it
	ModeRace   Mode = "race"   // when one has succeeded; it fails if none does
	ModeSettle Mode = "settle" // when all have ended; it does not fail because paths do
)

// Outcome is what one path came to: a value or an error.
type Outcome struct {
	ID    ID              `json:"id"`    // of the path's step
	Index int             `json:"index"` // of the path
	Value json.RawMessage `json:"value,omitempty"`
	Err   *fault.Error    `json:"err,omitempty"`
}

// StepID implements Step.
func (s Parallel) StepID() ID { return s.ID }

// Kind implements Step.
func (s Parallel) Kind() Kind { return KindParallel }

func (s Parallel) visit(v *Visitor)                                    { v.each(s.Paths) }
func (s Parallel) decode(out json.RawMessage) (json.RawMessage, error) { return out, nil }

func (s Parallel) check(r *report) {
	switch s.Mode {
	case ModeAll, ModeRace, ModeSettle:
	default:
		r.invalid("unknown mode "+fault.Quote(string(s.Mode)), "Use ModeAll, ModeRace or ModeSettle.")
	}
	r.notNegative("Limit", s.Limit)
	if s.PathsFrom != nil && s.Paths != nil {
		r.invalid("both Paths and PathsFrom are set", "Keep one of them.")
	}
	r.distinct("Paths", s.Paths)
	r.paths(s.Paths)
}

func (r *report) paths(all []Step) {
	for i, s := range all {
		r.step(indexed("Paths", i), s)
	}
}

// distinct finds siblings of the same id.
func (r *report) distinct(field string, all []Step) {
	seen := make(map[ID]int, len(all))
	for i, s := range all {
		if missing(s) {
			continue
		}
		first, taken := seen[s.StepID()]
		if taken {
			r.invalid(fmt.Sprintf("%s and %s have the same id %s", indexed(field, first), indexed(field, i),
				fault.Quote(string(s.StepID()))), "Give each its own id.")
			continue
		}
		seen[s.StepID()] = i
	}
}

func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

func (s Parallel) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	paths, err := s.steps(c, input)
	if err != nil {
		return nil, err
	}
	outcomes, err := sideBySide(c, s.Mode, s.Limit, paths, input, nil)
	if err != nil {
		return nil, err
	}
	if s.Merge == nil {
		return merge(c, s.Mode, outcomes)
	}
	merged, err := s.Merge(outcomes)
	if err != nil {
		return nil, err
	}
	return encode(c, "merged output", merged)
}

// steps are the paths to run. Those that code made are checked only now.
func (s Parallel) steps(c Context, input json.RawMessage) ([]Step, error) {
	if s.PathsFrom == nil {
		return s.Paths, nil
	}
	made, err := s.PathsFrom(c, input)
	if err != nil {
		return nil, err
	}
	r := report{trail: []ID{s.ID}}
	r.paths(made)
	return made, r.err()
}

// merge is the output without a Merge.
func merge(c Context, mode Mode, outcomes []Outcome) (json.RawMessage, error) {
	switch mode {
	case ModeRace:
		return outcomes[0].Value, nil
	case ModeSettle:
		return encode(c, "outcomes", outcomes)
	}
	values := make([]json.RawMessage, len(outcomes))
	for i := range outcomes {
		values[i] = outcomes[i].Value
	}
	return encode(c, "outputs", values)
}
