package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// Model answers from a script. It is safe for concurrent use; concurrent
// requests take rounds in the order in which they arrive.
type Model struct {
	rounds []Round

	mu       sync.Mutex
	requests []model.Request
	calls    int // made so far, for their ids
}

// New makes a model that answers with these rounds, one for each request.
func New(rounds ...Round) *Model {
	return &Model{rounds: append([]Round(nil), rounds...)}
}

// Requests returns what the model has been asked so far, oldest first. The
// caller owns the copies.
func (m *Model) Requests() []model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	copies := make([]model.Request, len(m.requests))
	for i := range m.requests {
		copies[i] = cloneRequest(&m.requests[i])
	}
	return copies
}

// Stream implements model.Model. A request whose ctx has ended already takes no
// round.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(model.Event{}, err)
			return
		}
		reply, err := m.answer(ctx, req)
		if err != nil {
			yield(model.Event{}, err)
			return
		}
		for _, ev := range events(reply) {
			if err := ctx.Err(); err != nil {
				yield(model.Event{}, err)
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// answer takes the next round and makes its reply.
func (m *Model) answer(ctx context.Context, req *model.Request) (*model.Reply, error) {
	round, err := m.next(req)
	if err != nil {
		return nil, err
	}
	for round.respond != nil {
		round = round.respond(req)
	}
	switch {
	case round.stall:
		<-ctx.Done()
		return nil, ctx.Err()
	case round.err != nil:
		return nil, round.err
	case round.reply != nil:
		reply := *round.reply
		reply.Items = cloneItems(reply.Items)
		return &reply, nil
	}
	return m.reply(req, round)
}

func (m *Model) next(req *model.Request) (Round, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.requests)
	m.requests = append(m.requests, cloneRequest(req))
	if n >= len(m.rounds) {
		return Round{}, fault.New(fault.ModelRejected, "script ended after %d rounds, this is request %d", len(m.rounds), n+1).
			WithHint("Add a round to scripted.New for request %d, which ended with %s.", n+1, lastOf(req))
	}
	return m.rounds[n], nil
}

// lastOf says what a request is about.
func lastOf(req *model.Request) string {
	if len(req.Items) == 0 {
		return "no items"
	}
	it := req.Items[len(req.Items)-1]
	return fmt.Sprintf("a %s %s", it.Type, fault.Quote(it.Text()))
}

// reply makes the reply of a text or of calls.
func (m *Model) reply(req *model.Request, round Round) (*model.Reply, error) {
	r := &model.Reply{Model: "scripted", Usage: model.Usage{Input: words(req.Items...)}}
	if round.calls == nil {
		r.Items = []model.Item{model.Text(model.Assistant, round.text)}
	}
	for _, call := range round.calls {
		args, err := encodeArgs(call.Args)
		if err != nil {
			return nil, unusable(err).err
		}
		r.Items = append(r.Items, model.Call(m.callID(), call.Name, args))
		r.Stop = model.StopTools
	}
	r.Usage.Output = words(r.Items...)
	return r, nil
}

func encodeArgs(args any) (json.RawMessage, error) {
	if args == nil {
		return json.RawMessage("{}"), nil
	}
	return json.Marshal(args)
}

func (m *Model) callID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	return fmt.Sprintf("call_%d", m.calls)
}

// words stands in for a count of tokens.
func words(items ...model.Item) int64 {
	n := 0
	for _, it := range items {
		n += len(strings.Fields(it.Text())) + len(strings.Fields(string(it.Args)))
	}
	return int64(n)
}

// events is the stream of a reply.
func events(r *model.Reply) []model.Event {
	var all []model.Event
	for i := range r.Items {
		switch it := &r.Items[i]; it.Type {
		case model.Message:
			for _, word := range strings.SplitAfter(it.Text(), " ") {
				if word != "" {
					all = append(all, model.Delta(word))
				}
			}
		case model.ToolCall:
			started := model.Item{Type: it.Type, CallID: it.CallID, Name: it.Name}
			all = append(all, model.Event{Type: model.CallStarted, Item: &started},
				model.Event{Type: model.CallDelta, Text: string(it.Args)})
		}
	}
	return append(all, model.Finish(r))
}
