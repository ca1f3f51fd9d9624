package harness

import (
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/secrets"
)

// deltas shows the pieces of a model's stream as they come. A piece that may be
// the beginning of a credential waits for the next one.
type deltas struct {
	d               *dialogue
	text, reasoning *secrets.Stream // nil until there is a piece
}

// deltas returns nil, which shows nothing, for a quiet step.
func (d *dialogue) deltas() *deltas {
	if d.s.Quiet {
		return nil
	}
	return &deltas{d: d}
}

// show publishes a piece of a stream, without what is held back.
func (s *deltas) show(e model.Event) {
	switch {
	case s == nil || e.Text == "":
	case e.Type == model.TextDelta:
		s.write(event.TextDelta, &s.text, e.Text)
	case e.Type == model.ReasoningDelta:
		s.write(event.ReasoningDelta, &s.reasoning, e.Text)
	}
}

func (s *deltas) write(t event.Type, to **secrets.Stream, text string) {
	if *to == nil {
		*to = s.d.r.x.h.scrubber.Stream()
	}
	s.publish(t, (*to).Write(text))
}

// end publishes what was held back, once the stream is over.
func (s *deltas) end() {
	if s == nil {
		return
	}
	if s.reasoning != nil {
		s.publish(event.ReasoningDelta, s.reasoning.Flush())
	}
	if s.text != nil {
		s.publish(event.TextDelta, s.text.Flush())
	}
}

func (s *deltas) publish(t event.Type, text string) {
	if text != "" {
		s.d.r.x.emit(event.Event{Type: t, Step: string(s.d.path), Round: s.d.round, Text: text})
	}
}
