package crash_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"strings"

	"github.com/bridle-dev/bridle/model"
)

// parrot is a model that says what its instructions say, which are lines: each
// is a round, with the tools it calls. Its answer is a digest of what it was
// told about them. Like the services, it gives ids that mean nothing.
type parrot struct{ peer *client }

// Stream implements model.Model.
func (p *parrot) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if _, err := p.peer.exchange(ctx, request{Method: "ask"}); err != nil {
			yield(model.Event{}, err)
			return
		}
		yield(model.Finish(script(req)), nil)
	}
}

// script is the reply to a conversation. Without instructions it is the user who
// says what to do.
func script(req *model.Request) *model.Reply {
	rounds := strings.Split(req.Instructions, "\n")
	asked, results := 0, sha256.New()
	for _, it := range req.Items {
		switch {
		case it.Role == model.User:
			asked = 0 // what came before was said to somebody else
			results.Reset()
			if req.Instructions == "" {
				rounds = strings.Split(it.Text(), "\n")
			}
		case it.Type == model.ToolCall:
			asked++
		case it.Type == model.ToolResult:
			results.Write([]byte(it.Text()))
		}
	}
	for _, round := range rounds {
		calls := strings.Fields(round)
		if asked >= len(calls) {
			asked -= len(calls)
			continue
		}
		r := &model.Reply{Stop: model.StopTools, Usage: model.Usage{Input: 1, Output: 1}}
		for i, call := range calls {
			name, args, _ := strings.Cut(call, ":")
			id := []string{"call", ""}[i%2] // the same each time, or none
			r.Items = append(r.Items, model.Call(id, name, json.RawMessage(args)))
		}
		return r
	}
	return &model.Reply{Items: []model.Item{model.Text(model.Assistant, "saw "+hex.EncodeToString(results.Sum(nil)))}}
}
