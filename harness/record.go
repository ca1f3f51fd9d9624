package harness

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// Enter implements steps.Runtime. What an earlier attempt recorded is not run
// again; what it, or a step beneath it, added to the conversation then is added once
// more.
func (r *runtime) Enter(ctx context.Context, path steps.Path, kind steps.Kind) (*steps.Recorded, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	return r.recorded(string(path), r.x.rec.Meet(string(path), string(kind)))
}

// Recall implements steps.Runtime.
func (r *runtime) Recall(path steps.Path) (*steps.Recorded, error) {
	return r.recorded(string(path), r.x.rec.Recall(string(path)))
}

// Kept implements steps.Runtime: a lease that was taken back has room that other
// paths may need.
func (r *runtime) Kept(path steps.Path) bool {
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	for at := range r.x.held {
		if ledger.Within(at, string(path)) {
			return true
		}
	}
	return false
}

// recorded is what an entry says that a step came to; nil of none.
func (r *runtime) recorded(path string, e *ledger.Entry) (*steps.Recorded, error) {
	if e == nil {
		return nil, nil
	}
	if err := r.sayAgain(path); err != nil {
		return nil, err
	}
	return &steps.Recorded{Output: e.Output, Err: e.Err}, nil
}

// Leave implements steps.Runtime. Credentials in what a step came to are replaced
// in the record only: the run at hand goes on with what it has.
func (r *runtime) Leave(ctx context.Context, path steps.Path, rec steps.Recorded) error {
	if r.x.rec == nil {
		return nil
	}
	e := ledger.Entry{Path: string(path), Output: r.x.h.scrubber.JSON(rec.Output), Err: r.x.h.scrubFault(rec.Err)}
	if said := r.x.said(path); len(said) > 0 {
		e.Items, e.Line = encode(said), r.line
	}
	if ledger.Outermost(e.Path) && r.x.holdsNothing() {
		r.x.rec.Conclude(e)
		return nil
	}
	return r.x.rec.Settle(ctx, e)
}

// holdsNothing reports whether nothing is released between the outermost step and
// the end: what is gone by then could not be gone on with, should the process die
// in between.
func (x *execution) holdsNothing() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.held)+len(x.crowded)+len(x.scope.own)+len(x.models.own) == 0
}

// pending returns what writes down that a call is about to be sent, with what
// more adds to its entry; nil without a ledger.
func (x *execution) pending(more func(*ledger.Entry)) func(context.Context, *gates.Call, func(store.Tx) error) error {
	if x.rec == nil {
		return nil
	}
	return func(ctx context.Context, c *gates.Call, use func(store.Tx) error) error {
		args := x.h.scrubber.JSON(c.Args)
		e := ledger.Entry{Path: c.Step, Connection: string(c.Connection), Op: c.Op, Source: string(c.Source), Key: c.Key,
			Args: args, Redacted: !bytes.Equal(args, c.Args), Secrets: places(c.Secrets), Identity: c.Identity, Lease: c.Lease, Approval: string(c.Approval)}
		if more != nil {
			more(&e)
		}
		return x.rec.Pending(ctx, e, x.fenced(c.Lease, use))
	}
}

// task writes down that a call became a task.
func (x *execution) task(ctx context.Context, path string) func(provider.TaskID) error {
	if x.rec == nil {
		return nil
	}
	return func(id provider.TaskID) error {
		return x.rec.Amend(ctx, path, func(e *ledger.Entry) { e.Task = id })
	}
}

// unsent forgets that a call was about to be sent that was not.
func (x *execution) unsent(ctx context.Context, c *gates.Call, out *gates.Outcome) {
	if x.rec == nil || out.Sent {
		return
	}
	if err := x.rec.Withdraw(context.WithoutCancel(ctx), c.Step); err != nil {
		x.emit(event.Event{Type: event.Warning, Step: c.Step, Text: "a call that was not sent stays in the ledger as pending", Err: err})
	}
}

// round is what the ledger keeps of one round of a model.
type round struct {
	Injected []model.Item `json:"injected,omitempty"` // messages that joined before it
	Reply    *model.Reply `json:"reply"`              // with call ids as the harness made them
}

// eachRound calls f with all rounds that an earlier attempt recorded and that
// were not met yet.
func (x *execution) eachRound(f func(*round)) error {
	for _, e := range x.rec.Known() {
		if e.Kind != ledger.KindRound || len(e.Output) == 0 {
			continue
		}
		r, err := readRound(e.Output)
		if err != nil {
			return err
		}
		f(r)
	}
	return nil
}

func readRound(raw json.RawMessage) (*round, error) {
	r := new(round)
	if err := json.Unmarshal(raw, r); err != nil || r.Reply == nil {
		return nil, fault.New(fault.StoreFailed, "recorded round of a model cannot be read: %w", err)
	}
	return r, nil
}

// recall returns what an earlier attempt recorded of this round.
func (d *dialogue) recall() (*round, error) {
	e := d.r.x.rec.Meet(d.at, ledger.KindRound)
	if e == nil {
		return nil, nil
	}
	if e.Err != nil {
		return nil, e.Err
	}
	r, err := readRound(e.Output)
	if err != nil {
		return nil, err
	}
	d.say(r.Injected...)
	d.r.x.emit(event.Event{Type: event.StepReplayed, Step: d.at, Round: d.round, Usage: &r.Reply.Usage})
	return r, nil
}

// record keeps a round before anyone acts on it.
func (d *dialogue) record(ctx context.Context, r *round) error {
	if d.r.x.rec == nil {
		return nil
	}
	clean := &round{Injected: d.r.x.h.redactor().items(r.Injected), Reply: r.Reply}
	return d.r.x.rec.Settle(context.WithoutCancel(ctx), ledger.Entry{Path: d.at, Output: encode(clean)})
}

// recallResult returns what an earlier attempt told the model about a call.
func (d *dialogue) recallResult(path string) (*model.Item, error) {
	e := d.r.x.rec.Meet(path, ledger.KindTool)
	if e == nil || e.Output == nil {
		return nil, nil
	}
	it := new(model.Item)
	if err := json.Unmarshal(e.Output, it); err != nil {
		return nil, fault.New(fault.StoreFailed, "recorded result of a tool cannot be read: %w", err)
	}
	return it, nil
}

// keepResult records what the model is told about a call. A call that was given
// up, or whose outcome is not known because the run ends, is not settled.
func (d *dialogue) keepResult(ctx context.Context, path string, it *model.Item) error {
	if d.r.x.rec == nil || ctx.Err() != nil {
		return nil
	}
	return d.r.x.rec.Settle(context.WithoutCancel(ctx), ledger.Entry{Path: path, Output: encode(it)})
}

// places are the secrets in the arguments of a call as the ledger keeps them.
func places(marked []secrets.Placeholder) []ledger.Place {
	var all []ledger.Place
	for _, m := range marked {
		all = append(all, ledger.Place{Path: m.Path, Name: string(m.Ref)})
	}
	return all
}
