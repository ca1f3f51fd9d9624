package steps

import "encoding/json"

// If runs one of two steps with its input. A branch that is nil passes the
// input through. Until the If is done, a resume asks Cond again.
type If struct {
	ID ID
	// Cond decides from the input, which it must not change. Typed functions
	// fit by way of Input.
	Cond       func(Context, json.RawMessage) (bool, error)
	Then, Else Step
}

// StepID implements Step.
func (s If) StepID() ID { return s.ID }

// Kind implements Step.
func (s If) Kind() Kind { return KindIf }

func (s If) visit(v *Visitor)                                    { v.step(s.Then); v.step(s.Else) }
func (s If) decode(out json.RawMessage) (json.RawMessage, error) { return out, nil }

func (s If) check(r *report) {
	if s.Cond == nil {
		r.invalid("If has no Cond", "Set Cond to the function that decides.")
	}
	r.optional("Then", s.Then)
	r.optional("Else", s.Else)
}

func (s If) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	yes, err := s.Cond(c, input)
	if err != nil {
		return nil, err
	}
	branch := s.Else
	if yes {
		branch = s.Then
	}
	if branch == nil {
		return input, nil
	}
	return c.step(branch, input)
}
