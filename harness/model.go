package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/steps"
)

const (
	// defaultRounds is how often a model step asks before it wants an answer.
	defaultRounds = 32
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
	at    string // path of the round
	known int    // how many credentials the tools were looked through for
	named bool   // a blob of the thread has a name that models know
}

// Model implements steps.Runtime.
func (r *runtime) Model(ctx context.Context, path steps.Path, s *steps.CallModel, input json.RawMessage) (json.RawMessage, error) {
	d, err := r.dialogue(ctx, path, s)
	if err != nil {
		return nil, err
	}
	if text, ok := userText(input); ok {
		d.say(model.Text(model.User, text))
	}
	if len(r.log.view()) == 0 {
		return nil, fault.New(fault.StepInvalid, "there is nothing to ask the model").
			WithHint("Give the step an input, or run it where a conversation has begun.")
	}
	repairs := 0
	for {
		reply, called, err := d.next(ctx)
		if err != nil {
			return nil, err
		}
		if called {
			continue
		}
		answer, err := d.answer(reply)
		cut := reply.Stop == model.StopMaxTokens
		if cut {
			d.tellCut()
		}
		if err == nil || cut || repairs == maxRepairs {
			return answer, err
		}
		repairs++
		d.say(model.Text(model.Developer, "The answer does not have the required shape: "+err.Error()+". Answer again with JSON of that shape only."))
	}
}

// dialogue prepares a model step. Everything it needs is there or an error.
func (r *runtime) dialogue(ctx context.Context, path steps.Path, s *steps.CallModel) (*dialogue, error) {
	x := r.x
	d := &dialogue{r: r, path: path, s: s, model: s.Model}
	if d.model == nil {
		d.model = x.h.config.Model
	}
	if d.model == nil {
		return nil, fault.New(fault.MissingModel, "step has no model").WithHint("Set CallModel.Model or Config.Model.")
	}
	offer, err := r.offer(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := x.checkChoice(s.ToolChoice, offer); err != nil {
		return nil, err
	}
	d.req = model.Request{Instructions: s.Instructions, Params: s.Params, Output: s.Output(), ToolChoice: s.ToolChoice}
	if d.req.Instructions == "" {
		d.req.Instructions = x.h.config.Instructions
	}
	d.tools, d.req.Tools, d.known = offer.tools, slices.Clip(offer.specs), offer.known
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

// say appends items to the conversation, on behalf of a model step.
func (d *dialogue) say(items ...model.Item) {
	for i := range items {
		if items[i].ID == "" {
			items[i].ID = d.r.x.itemID()
		}
	}
	items = d.r.x.h.redactor().items(items)
	d.r.x.note(d.path, items)
	d.r.x.add(d.r.log, items...)
}

// next is one round: ask, and run what the model calls, if it calls something. A
// round that an earlier attempt recorded is not asked again.
func (d *dialogue) next(ctx context.Context) (reply *model.Reply, called bool, err error) {
	d.round++
	d.at = string(d.path) + "/round#" + strconv.Itoa(d.round)
	limit := d.s.MaxRounds
	if limit == 0 {
		limit = defaultRounds
	}
	r, err := d.recall()
	if r == nil && err == nil {
		r, err = d.fresh(ctx, d.round > limit)
	}
	if err != nil {
		return nil, false, err
	}
	d.req.ToolChoice = model.ToolChoice{}
	calls := r.Reply.Calls()
	if d.round > limit && len(calls) > 0 {
		return nil, false, fault.New(fault.LoopExhausted, "model still calls tools after %d rounds", limit).
			WithHint("Raise CallModel.MaxRounds, or give the model a smaller task.")
	}
	d.say(r.Reply.Items...)
	return r.Reply, len(calls) > 0, d.runAll(ctx, calls)
}

// fresh asks the model for one round and records it before anyone acts on it.
func (d *dialogue) fresh(ctx context.Context, last bool) (*round, error) {
	injected, err := d.inject(ctx)
	if err != nil {
		return nil, err
	}
	r := &round{Injected: injected}
	d.offerPages(ctx)
	d.redact()
	d.req.Items = d.r.log.view()
	if last {
		d.req.ToolChoice = model.ToolChoice{Mode: model.ChooseNone}
		d.req.Items = append(d.req.Items, model.Text(model.Developer,
			"No more tools can be called. Answer with what you have."))
	}
	reply, err := d.ask(ctx)
	if err != nil {
		return nil, err
	}
	r.Reply = d.own(reply)
	return r, d.record(ctx, r)
}

// redact replaces credentials in all that the model is told, those included that
// were registered since it was told last.
func (d *dialogue) redact() {
	r := d.r.x.h.redactor()
	d.r.log.redact(r)
	if known := r.Count(); known != d.known {
		d.req.Tools, d.known = r.tools(d.req.Tools), known
	}
	d.req.Instructions, d.req.Output = r.String(d.req.Instructions), r.output(d.req.Output)
}

// runAll runs the calls of a round one after the other. Each gets a result even
// if the step is cut: services refuse conversations with open calls.
func (d *dialogue) runAll(ctx context.Context, calls []model.Item) error {
	for _, c := range calls {
		if ctx.Err() != nil {
			d.say(model.Result(c.CallID, c.Name, "Error: not run, since the step was cut short", true))
			continue
		}
		it, err := d.once(ctx, c)
		if err != nil {
			return err
		}
		d.say(it)
	}
	return ended(ctx)
}

// once runs a call, unless an earlier attempt recorded what came of it.
func (d *dialogue) once(ctx context.Context, c model.Item) (model.Item, error) {
	path := d.at + "/" + c.CallID
	known, err := d.recallResult(path)
	if err != nil {
		return model.Item{}, err
	}
	if known != nil {
		return *known, nil
	}
	it := d.run(ctx, path, c)
	it.ID = d.r.x.itemID()
	return it, d.keepResult(ctx, path, &it)
}

// inject takes messages that are to join between rounds.
func (d *dialogue) inject(ctx context.Context) (items []model.Item, err error) {
	x := d.r.x
	if x.turn == nil || d.r.log != x.log {
		return nil, nil
	}
	joining := x.turn.inject(x.id)
	if err := x.joinTurn(ctx, joining); err != nil {
		return nil, err
	}
	for _, m := range joining {
		x.emit(event.Event{Type: event.MessageInjected, Step: string(d.path), Round: d.round,
			Data: map[string]any{"message": string(m.id)}})
		d.say(m.items...)
		items = append(items, m.items...)
	}
	return items, nil
}

// own returns a copy of a reply with call ids that are unique in the execution.
func (d *dialogue) own(reply *model.Reply) *model.Reply {
	r := *reply
	r.Items = append([]model.Item(nil), reply.Items...)
	calls := 0
	for i := range r.Items {
		it := &r.Items[i]
		if it.Type != model.ToolCall {
			continue
		}
		it.CallID = d.r.x.callID(it.CallID, d.round, calls)
		calls++
		if len(it.Args) > 0 && !json.Valid(it.Args) {
			it.Args = encode(string(it.Args)) // as Item.Args demands; no gate lets it through
		}
	}
	return &r
}

// run runs one tool call of the model and returns its result for the model.
func (d *dialogue) run(ctx context.Context, path string, c model.Item) model.Item {
	t, ok := d.tools[c.Name]
	if !ok {
		t, ok = d.tools[sanitize(c.Name)]
	}
	if !ok {
		return model.Result(c.CallID, c.Name, "Error: "+d.noTool(c.Name), true)
	}
	args := c.Args
	call := gates.Call{Args: args, Source: gates.SourceModel, Step: path, CallID: c.CallID,
		Key: toolKey(d.r.x.id, c.CallID)}
	switch {
	case t.page:
		return d.page(ctx, c, call)
	case t.fn != nil:
		return d.result(ctx, c, &call, d.r.tool(ctx, steps.Path(path), t.fn, call), 0)
	}
	call.Connection, call.Op = t.op.connection, t.op.op
	out := d.r.x.call(ctx, &wanted{sup: t.sup, at: d.r.leases, call: call, grants: d.offers})
	return d.result(ctx, c, &call, out, t.sup.entry.ResultCap)
}

// offers reports whether the model may use an operation of a connection.
func (d *dialogue) offers(name connection.Name, op string) bool {
	for _, t := range d.tools {
		if t.op == (operation{name, op}) {
			return true
		}
	}
	return false
}

func (d *dialogue) noTool(name string) string {
	offered := make([]string, len(d.req.Tools))
	for i, t := range d.req.Tools {
		offered[i] = t.Name
	}
	text := fmt.Sprintf("there is no tool named %s; the tools are: %s", fault.Quote(name), fault.Names(offered))
	for _, sup := range d.r.x.missing() {
		text += "; connection " + string(sup.name) + " may have it and is unavailable"
	}
	return text
}

// tellCut says that an answer is not whole, which its text does not show.
func (d *dialogue) tellCut() {
	d.r.x.emit(event.Event{Type: event.Warning, Step: string(d.path), Round: d.round,
		Text: "the model's answer was cut at its limit of tokens: raise CallModel.Params.MaxTokens"})
}

// answer is what a reply without calls comes to. An error is about its shape.
func (d *dialogue) answer(reply *model.Reply) (json.RawMessage, error) {
	text := reply.Text()
	out := d.s.Output()
	if out == nil {
		return encode(text), nil
	}
	if reply.Stop == model.StopMaxTokens {
		return nil, fault.New(fault.ModelParse, "answer was cut at its limit of tokens").
			WithHint("Raise CallModel.Params.MaxTokens.")
	}
	if !json.Valid([]byte(text)) {
		return nil, fault.New(fault.ModelParse, "answer is not JSON: %s", fault.Quote(text))
	}
	if issues := gates.NewSchema(out.Schema).Check(json.RawMessage(text)); len(issues) > 0 {
		return nil, &fault.Error{Code: fault.ModelParse, Issues: issues, Err: errors.New("answer does not fit its schema")}
	}
	return json.RawMessage(text), nil
}
