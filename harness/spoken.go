package harness

import (
	"encoding/json"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/steps"
)

// note keeps what a model step added to the conversation, for its record.
func (x *execution) note(path steps.Path, items []model.Item) {
	if x.rec == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.spoken[path] = append(x.spoken[path], items...)
}

// said takes what was noted.
func (x *execution) said(path steps.Path) []model.Item {
	x.mu.Lock()
	defer x.mu.Unlock()
	items := x.spoken[path]
	delete(x.spoken, path)
	return items
}

// recallModels takes over what earlier attempts recorded of models before any step
// runs, since a step that replays as a whole does not come back to the model steps
// beneath it: what they said, and the call ids of their rounds, of which keys are
// made.
func (x *execution) recallModels() error {
	for _, e := range x.rec.Known() {
		if len(e.Items) > 0 {
			x.recorded = append(x.recorded, e)
		}
	}
	return x.eachRound(func(r *round) {
		for _, c := range r.Reply.Calls() {
			x.claim(c.CallID)
		}
	})
}

// sayAgain adds to a conversation what a step that replays, and those beneath it,
// had added to it, in the order in which they did.
func (r *runtime) sayAgain(path string) error {
	for _, e := range r.x.recorded {
		if e.Line != r.line || !ledger.Within(e.Path, path) {
			continue
		}
		var items []model.Item
		if err := json.Unmarshal(e.Items, &items); err != nil {
			return fault.New(fault.StoreFailed, "what a model step said cannot be read: %w", err)
		}
		r.x.add(r.log, items...)
	}
	return nil
}
