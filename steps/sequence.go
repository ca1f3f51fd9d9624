package steps

import "encoding/json"

// Sequence runs steps one after the other. The first gets the sequence's input,
// each later one the output of the one before; the last output is the
// sequence's. A failure ends it. Without steps it passes its input on.
type Sequence struct {
	ID    ID
	Steps []Step
}

// StepID implements Step.
func (s Sequence) StepID() ID { return s.ID }

// Kind implements Step.
func (s Sequence) Kind() Kind { return KindSequence }

func (s Sequence) visit(v *Visitor)                                    { v.each(s.Steps) }
func (s Sequence) decode(out json.RawMessage) (json.RawMessage, error) { return out, nil }

func (s Sequence) check(r *report) {
	for i, sub := range s.Steps {
		r.step(indexed("Steps", i), sub)
	}
}

func (s Sequence) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	out := input
	for _, sub := range s.Steps {
		var err error
		if out, err = c.step(sub, out); err != nil {
			return nil, err
		}
		c.from = sub.StepID()
	}
	return out, nil
}
