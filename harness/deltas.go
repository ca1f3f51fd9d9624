package harness

import (
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/secrets"
)

// deltas shows the pieces of a model's stream as they come. A piece that may be
// the beginning of a credential waits for the next one.
type deltas struct {
	emit func(event.Event)
	in   event.Event // place and round of all of them

	text, reasoning *secrets.Stream
}

func (d *dialogue) deltas(in event.Event) *deltas {
	if d.s.Quiet {
		return nil
	}
	scrub := d.r.x.h.scrubber
	return &deltas{emit: d.r.x.emit, in: in, text: scrub.Stream(), reasoning: scrub.Stream()}
}

// show publishes a piece of a stream, without what is held back.
func (d *deltas) show(e model.Event) {
	switch {
	case d == nil || e.Text == "":
	case e.Type == model.TextDelta:
		d.publish(event.TextDelta, d.text.Write(e.Text))
	case e.Type == model.ReasoningDelta:
		d.publish(event.ReasoningDelta, d.reasoning.Write(e.Text))
	}
}

// end publishes what was held back, once the stream is over.
func (d *deltas) end() {
	if d != nil {
		d.publish(event.ReasoningDelta, d.reasoning.Flush())
		d.publish(event.TextDelta, d.text.Flush())
	}
}

func (d *deltas) publish(t event.Type, text string) {
	if text != "" {
		ev := d.in
		ev.Type, ev.Text = t, text
		d.emit(ev)
	}
}
