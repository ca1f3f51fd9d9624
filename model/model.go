// Package model is the contract for language models: a stream of events that
// ends with one whole reply.
//
// A model gets a [Request], the whole conversation each time, and answers with
// a stream:
//
//	func (Echo) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Event, error] {
//		return func(yield func(model.Event, error) bool) {
//			text := req.Items[len(req.Items)-1].Text()
//			if yield(model.Delta(text), nil) {
//				yield(model.Finish(&model.Reply{Items: []model.Item{model.Text(model.Assistant, text)}}), nil)
//			}
//		}
//	}
//
// # Errors
//
// An error is the last pair of a stream. Adapters use model_failed (the service
// broke or the stream did), model_rate_limit (it asks to slow down, or is
// overloaded; perhaps with a [RetryAfter] underneath), model_rejected (asking
// again will not help), model_refused and model_parse_error of package fault,
// with the service's own code in PeerCode; a context error stays visible
// underneath. A model that declines within its answer is no error of the
// stream: its reply has the reason StopRefused. Adapters do not retry: whoever
// runs the conversation decides.
//
// # Testing
//
// model/scripted answers from a script, without a key or a network. Every
// adapter passes model/modeltest.
package model

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/bridle-dev/bridle/fault"
)

// Model answers conversations. Implementations are safe for concurrent use.
type Model interface {
	// Stream asks the model once. Nothing happens before the first pull; each
	// range over the sequence asks again. Without an error the stream ends with
	// exactly one Done event that carries the whole reply. Breaking out or
	// ending ctx releases what is upstream; the latter yields ctx's error.
	// The request belongs to the caller and is neither changed nor kept after
	// the stream ended.
	Stream(ctx context.Context, req *Request) iter.Seq2[Event, error]
}

// Request is everything a model is told.
type Request struct {
	Instructions string     // what the application asks of the model
	Items        []Item     // the conversation so far, oldest first
	Tools        []Tool     // what the model may call, in a stable order
	ToolChoice   ToolChoice // the zero value leaves it to the model
	Params       Params
	Output       *Output // the shape of a structured answer; nil is free text
}

// Tool describes something a model may call.
type Tool struct {
	Name        string // 1 to 64 of [A-Za-z0-9_-]
	Description string
	Args        json.RawMessage // JSON Schema, an object at its root
}

// ToolChoice says whether the model must use tools. The zero value is ChooseAuto.
type ToolChoice struct {
	Mode ChoiceMode
	Name string // the tool, for ChooseTool
}

// ChoiceMode is the kind of a ToolChoice.
type ChoiceMode string

// The modes. ChooseTool needs a name: build it with [Choose].
const (
	ChooseAuto ChoiceMode = ""     // the model decides
	ChooseNone ChoiceMode = "none" // no tool may be called
	ChooseAny  ChoiceMode = "any"  // some tool must be called
	ChooseTool ChoiceMode = "tool" // this tool must be called
)

// Choose requires the named tool.
func Choose(name string) ToolChoice { return ToolChoice{Mode: ChooseTool, Name: name} }

// Params tune the model. Nil and zero leave the service's defaults.
type Params struct {
	MaxTokens   int      // of the reply
	Temperature *float64 // in the service's range
	TopP        *float64
	Stop        []string // texts that end the reply
	Seed        *int64
	Effort      string // how long to reason, in the service's own words
}

// Output is the shape of a structured answer.
type Output struct {
	Name   string          // what to call it, 1 to 64 of [A-Za-z0-9_-]
	Schema json.RawMessage // JSON Schema
}

// EventType tells the events of a stream apart.
type EventType string

// The kinds of Event.
const (
	TextDelta      EventType = "text_delta"      // Text is the next piece of the answer
	ReasoningDelta EventType = "reasoning_delta" // Text is the next piece of reasoning
	CallStarted    EventType = "call_started"    // Item names the tool; arguments follow in the reply
	CallDelta      EventType = "call_delta"      // Text is the next piece of a call's arguments
	Alive          EventType = "alive"           // the service is at work, nothing to show
	Done           EventType = "done"            // Reply is whole; the last event
)

// Event is one element of a model's stream.
type Event struct {
	Type  EventType
	Text  string
	Item  *Item
	Reply *Reply // of Done only
}

// Delta is a TextDelta.
func Delta(text string) Event { return Event{Type: TextDelta, Text: text} }

// Finish is the Done event of a reply.
func Finish(r *Reply) Event { return Event{Type: Done, Reply: r} }

// Reply is a whole answer.
type Reply struct {
	ID    string // the service's id, "" if it has none
	Model string // which model answered
	Items []Item // messages, tool calls and reasoning, in order
	Stop  StopReason
	Usage Usage
}

// StopReason says why a reply ended.
type StopReason string

// The reasons.
const (
	StopEnd       StopReason = ""           // the model was done
	StopTools     StopReason = "tool_calls" // it waits for results
	StopMaxTokens StopReason = "max_tokens" // it was cut
	StopRefused   StopReason = "refused"    // it declined
)

// Usage counts tokens. A nil CachedInput means that the service does not say.
type Usage struct {
	Input       int64  `json:"input"` // all input tokens, cached ones included
	Output      int64  `json:"output"`
	CachedInput *int64 `json:"cachedInput,omitempty"`
}

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	sum := Usage{Input: u.Input + v.Input, Output: u.Output + v.Output}
	if u.CachedInput != nil || v.CachedInput != nil {
		var c int64
		for _, p := range []*int64{u.CachedInput, v.CachedInput} {
			if p != nil {
				c += *p
			}
		}
		sum.CachedInput = &c
	}
	return sum
}

// Text joins the text of the reply's messages.
func (r *Reply) Text() string {
	var b strings.Builder
	for i := range r.Items {
		if r.Items[i].Type == Message {
			b.WriteString(r.Items[i].Text())
		}
	}
	return b.String()
}

// Calls returns the reply's tool calls in order.
func (r *Reply) Calls() []Item {
	var calls []Item
	for _, it := range r.Items {
		if it.Type == ToolCall {
			calls = append(calls, it)
		}
	}
	return calls
}

// Collect pulls a stream to its end and returns the reply. A stream that ends
// without a reply, or goes on after one, is a model_failed error.
func Collect(stream iter.Seq2[Event, error]) (*Reply, error) {
	var reply *Reply
	for ev, err := range stream {
		switch {
		case err != nil:
			return nil, err
		case reply != nil:
			return nil, fault.New(fault.ModelFailed, "stream goes on after its reply")
		case ev.Type == Done && ev.Reply == nil:
			return nil, fault.New(fault.ModelFailed, "stream ended with an empty reply")
		case ev.Type == Done:
			reply = ev.Reply
		}
	}
	if reply == nil {
		return nil, fault.New(fault.ModelFailed, "stream ended without a reply")
	}
	return reply, nil
}
