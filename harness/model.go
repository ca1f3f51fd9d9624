package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/steps"
)

const (
	// defaultRounds is how often a model step asks before it wants an answer.
	defaultRounds = 32
	// defaultIdle is longer than any healthy stream of a reasoning model is
	// silent.
	defaultIdle = 2 * time.Minute
	// maxAttempts is how often one round is tried when a model's service fails.
	maxAttempts = 3
	// maxRepairs is how often a model may mend an answer of the wrong shape.
	maxRepairs = 2
)

// dialogue is one model step at work: it asks, runs the tools the model calls,
// and asks again.
type dialogue struct {
	r     *runtime
	path  steps.Path
	s     *steps.CallModel
	model model.Model
	req   model.Request
	tools map[string]tool
	round int
}

// Model implements steps.Runtime.
func (r *runtime) Model(ctx context.Context, path steps.Path, s *steps.CallModel, input json.RawMessage) (json.RawMessage, error) {
	d, err := r.dialogue(path, s)
	if err != nil {
		return nil, err
	}
	if text, ok := userText(input); ok {
		r.say(model.Text(model.User, text))
	}
	repairs := 0
	for {
		reply, err := d.next(ctx)
		if err != nil {
			return nil, err
		}
		if len(reply.Calls()) > 0 {
			continue
		}
		answer, err := d.answer(reply)
		if err == nil || repairs == maxRepairs {
			return answer, err
		}
		repairs++
		r.say(model.Text(model.Developer, "The answer does not have the required shape: "+err.Error()+". Answer again with JSON of that shape only."))
	}
}

// dialogue prepares a model step. Everything it needs is there or an error.
func (r *runtime) dialogue(path steps.Path, s *steps.CallModel) (*dialogue, error) {
	x := r.x
	d := &dialogue{r: r, path: path, s: s, model: s.Model, tools: map[string]tool{}}
	if d.model == nil {
		d.model = x.h.config.Model
	}
	if d.model == nil {
		return nil, fault.New(fault.MissingModel, "step has no model").WithHint("Set CallModel.Model or Config.Model.")
	}
	tools, err := x.offer(s)
	if err != nil {
		return nil, err
	}
	if err := checkChoice(s.ToolChoice, tools); err != nil {
		return nil, err
	}
	d.req = model.Request{Instructions: s.Instructions, Params: s.Params, Output: s.Output(), ToolChoice: s.ToolChoice}
	if d.req.Instructions == "" {
		d.req.Instructions = x.h.config.Instructions
	}
	for _, t := range tools {
		d.tools[t.spec.Name] = t
		d.req.Tools = append(d.req.Tools, t.spec)
	}
	return d, nil
}

// userText is a step's input as a user's message; null and "" are none.
func userText(input json.RawMessage) (string, bool) {
	var text string
	if len(input) == 0 || string(input) == "null" {
		return "", false
	}
	if json.Unmarshal(input, &text) == nil {
		return text, text != ""
	}
	return string(input), true
}

// say appends an item to the conversation.
func (r *runtime) say(items ...model.Item) {
	for i := range items {
		if items[i].ID == "" {
			items[i].ID = newID("itm-")
		}
	}
	r.x.add(r.log, items...)
}

// next is one round: ask, and run what the model calls.
func (d *dialogue) next(ctx context.Context) (*model.Reply, error) {
	d.round++
	limit := d.s.MaxRounds
	if limit == 0 {
		limit = defaultRounds
	}
	d.inject()
	d.req.Items = d.r.log.view()
	last := d.round > limit
	if last {
		d.req.ToolChoice = model.ToolChoice{Mode: model.ChooseNone}
		d.req.Items = append(d.req.Items, model.Text(model.Developer,
			"No more tools can be called. Answer with what you have."))
	}
	reply, err := d.ask(ctx)
	if err != nil {
		return nil, err
	}
	d.req.ToolChoice = model.ToolChoice{}
	calls := d.take(reply)
	if last && len(calls) > 0 {
		return nil, fault.New(fault.LoopExhausted, "model still calls tools after %d rounds", limit).
			WithHint("Raise CallModel.MaxRounds, or give the model a smaller task.")
	}
	for _, c := range calls {
		d.r.say(d.run(ctx, c))
		if ctx.Err() != nil {
			return nil, fault.From(context.Cause(ctx), fault.Cancelled)
		}
	}
	return reply, nil
}

// inject takes messages that are to join between rounds.
func (d *dialogue) inject() {
	x := d.r.x
	if x.turn == nil || d.r.log != x.log {
		return
	}
	for _, m := range x.turn.inject(x.id) {
		x.emit(event.Event{Type: event.MessageInjected, Step: string(d.path), Round: d.round,
			Data: map[string]any{"message": string(m.id)}})
		d.r.say(m.items...)
	}
}

// ask asks the model, again if its service fails.
func (d *dialogue) ask(ctx context.Context) (*model.Reply, error) {
	for attempt := 1; ; attempt++ {
		reply, err := d.stream(ctx)
		if err == nil && len(reply.Items) == 0 {
			err = fault.New(fault.ModelFailed, "model answered nothing")
		}
		if err == nil || ctx.Err() != nil {
			return reply, err
		}
		wait, again := retryModel(err, attempt)
		if !again {
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fault.From(context.Cause(ctx), fault.Cancelled)
		}
	}
}

// retryModel says whether and when a failed round is tried again.
func retryModel(err error, attempt int) (time.Duration, bool) {
	if attempt >= maxAttempts {
		return 0, false
	}
	switch fault.CodeOf(err) {
	case fault.ModelRateLimit:
		return pause(attempt+4, spread), true
	case fault.ModelFailed:
		return pause(attempt, spread), true
	}
	return 0, false
}

// stream asks the model once and publishes what it says.
func (d *dialogue) stream(ctx context.Context) (reply *model.Reply, err error) {
	x := d.r.x
	ctx, end := x.h.span(ctx, event.Span{Kind: event.SpanModel, Name: string(d.s.ID), Thread: x.thread,
		Execution: x.id, Step: string(d.path), Round: d.round})
	began := x.h.clock()
	ev := event.Event{Type: event.ModelStarted, Step: string(d.path), Round: d.round}
	x.emit(ev)
	defer func() {
		end(err)
		ev.Type, ev.Duration, ev.Err = event.ModelCompleted, x.h.since(began), err
		if reply != nil {
			x.spend(reply.Usage)
			ev.Data = map[string]any{"usage": reply.Usage}
		}
		x.emit(ev)
	}()
	return d.watch(ctx, ev)
}

// watch pulls a stream to its end, and gives it up when it is silent too long.
func (d *dialogue) watch(ctx context.Context, ev event.Event) (reply *model.Reply, err error) {
	defer d.r.x.h.contain(&err, "the model")
	idle := d.r.x.h.config.StreamIdle
	if idle == 0 {
		idle = defaultIdle
	}
	parent := ctx
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	stalled := fault.New(fault.ModelStalled, "model's stream was silent for %s", idle).
		WithHint("Raise Config.StreamIdle if the model needs longer.")
	alive := func() {}
	if idle > 0 {
		timer := time.AfterFunc(idle, func() { cancel(stalled) })
		defer timer.Stop()
		alive = func() { timer.Reset(idle) }
	}
	reply, err = model.Collect(func(yield func(model.Event, error) bool) {
		for e, err := range d.model.Stream(ctx, &d.req) {
			alive()
			d.publish(e, ev)
			if !yield(e, err) {
				return
			}
		}
	})
	switch {
	case err == nil:
		return reply, nil
	case parent.Err() != nil:
		return nil, fault.From(context.Cause(parent), fault.Cancelled)
	case errors.Is(context.Cause(ctx), fault.ModelStalled):
		ev.Type, ev.Duration = event.ModelStalled, idle
		d.r.x.emit(ev)
		return nil, stalled
	}
	return nil, fault.From(d.r.x.h.chain.Error(err), fault.ModelFailed)
}

// publish shows the pieces of a stream as they come.
func (d *dialogue) publish(e model.Event, ev event.Event) {
	if d.s.Quiet || e.Text == "" {
		return
	}
	switch e.Type {
	case model.TextDelta:
		ev.Type = event.TextDelta
	case model.ReasoningDelta:
		ev.Type = event.ReasoningDelta
	default:
		return
	}
	ev.Text = e.Text
	d.r.x.emit(ev)
}

// take appends a reply to the conversation, with call ids that are unique in
// the execution, and returns its calls.
func (d *dialogue) take(reply *model.Reply) []model.Item {
	items := append([]model.Item(nil), reply.Items...)
	var calls []model.Item
	for i := range items {
		if items[i].Type == model.ToolCall {
			items[i].CallID = d.r.x.callID(items[i].CallID, d.round, len(calls))
			calls = append(calls, items[i])
		}
	}
	d.r.say(items...)
	return calls
}

// run runs one tool call of the model and returns its result for the model.
func (d *dialogue) run(ctx context.Context, c model.Item) model.Item {
	t, ok := d.tools[c.Name]
	if !ok {
		t, ok = d.tools[sanitize(c.Name)]
	}
	if !ok {
		return model.Result(c.CallID, c.Name, "Error: "+d.noTool(c.Name), true)
	}
	args := c.Args
	path := steps.Path(fmt.Sprintf("%s/round#%d/%s", d.path, d.round, c.CallID))
	call := gates.Call{Args: args, Source: gates.SourceModel, Step: string(path), CallID: c.CallID,
		Key: toolKey(d.r.x.id, c.CallID)}
	if t.fn != nil {
		return result(c, d.r.tool(ctx, path, t.fn, call), 0)
	}
	call.Connection, call.Op = t.op.connection, t.op.op
	return result(c, d.r.x.call(ctx, t.sup, call), t.sup.entry.ResultCap)
}

func (d *dialogue) noTool(name string) string {
	offered := make([]string, len(d.req.Tools))
	for i, t := range d.req.Tools {
		offered[i] = t.Name
	}
	return fmt.Sprintf("there is no tool named %s; the tools are %v", fault.Quote(name), offered)
}

// answer is what a reply without calls comes to.
func (d *dialogue) answer(reply *model.Reply) (json.RawMessage, error) {
	text := reply.Text()
	if reply.Stop == model.StopRefused {
		return nil, fault.New(fault.ModelRefused, "model declined: %s", fault.Quote(text))
	}
	out := d.s.Output()
	if out == nil {
		return encode(text), nil
	}
	if !json.Valid([]byte(text)) {
		return nil, fault.New(fault.ModelParse, "answer is not JSON: %s", fault.Quote(text))
	}
	if issues := gates.NewSchema(out.Schema).Check(json.RawMessage(text)); len(issues) > 0 {
		return nil, &fault.Error{Code: fault.ModelParse, Issues: issues, Err: errors.New("answer does not fit its schema")}
	}
	return json.RawMessage(text), nil
}
