package scripted

import (
	"encoding/json"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// Round is the answer to one request. Make it with one of the functions here.
// Rounds may be used in several scripts.
type Round struct {
	text    string
	calls   []Call
	reply   *model.Reply
	err     error
	stall   bool
	respond func(*model.Request) Round
}

// Call is a call of a tool. Args are marshalled as JSON; nil is {}.
type Call struct {
	Name string
	Args any
}

// Say answers with a text.
func Say(text string) Round { return Round{text: text} }

// JSON answers with v as JSON text, as for a structured answer.
func JSON(v any) Round {
	text, err := json.Marshal(v)
	if err != nil {
		return unusable(err)
	}
	return Say(string(text))
}

// CallTool calls a tool. Args are marshalled as JSON; nil is {}.
func CallTool(name string, args any) Round { return CallTools(Call{name, args}) }

// CallTools calls several tools in one reply.
func CallTools(calls ...Call) Round { return Round{calls: calls} }

// Reply answers with a reply as it is, ids included.
func Reply(r *model.Reply) Round { return Round{reply: r} }

// Fail ends the stream with err.
func Fail(err error) Round { return Round{err: err} }

// Stall sends nothing until ctx ends.
func Stall() Round { return Round{stall: true} }

// Respond makes the round from the request, which f must not change.
func Respond(f func(req *model.Request) Round) Round { return Round{respond: f} }

// unusable is a round whose own values cannot be sent.
func unusable(err error) Round {
	return Fail(fault.New(fault.ModelRejected, "script cannot be encoded: %w", err).
		WithHint("Use values that encoding/json can encode."))
}
