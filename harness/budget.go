package harness

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
)

// purse makes what an execution may spend; nil if the harness has no budget.
func (h *AgentHarness) purse(id ExecutionID) *gates.Purse {
	if h.config.Budget == (gates.Budget{}) {
		return nil
	}
	return gates.NewPurse("execution "+string(id), h.config.Budget, h.clock)
}

// spendRecorded counts what earlier attempts used: calls, and the tokens of all
// rounds. Time counts anew, as nobody works while no process runs.
func (x *execution) spendRecorded() error {
	x.purse.Spend(gates.Amount{Calls: int64(x.rec.Calls())})
	return x.eachRound(func(r *round) {
		x.spend(r.Reply.Usage)
		x.purse.Spend(gates.Amount{Tokens: tokens(r.Reply.Usage)})
	})
}

// pay reserves what a round of the model may use before it is asked.
func (d *dialogue) pay() (*gates.Reservation, error) {
	return d.r.x.purse.Reserve(gates.Amount{Tokens: max(1, int64(d.s.Params.MaxTokens))})
}

// meter tells what a round of the model took.
func (d *dialogue) meter(ctx context.Context, used model.Usage, took time.Duration, err error) {
	if m := d.r.x.h.config.Meter; m != nil {
		defer d.r.x.h.contain(new(error), "the meter")
		m.Record(ctx, gates.Usage{Thread: d.r.x.thread, Execution: d.r.x.id, Source: gates.SourceModel,
			Step: string(d.path), Tokens: tokens(used), Latency: took, Outcome: fault.CodeOf(err)})
	}
}

func tokens(u model.Usage) int64 { return u.Input + u.Output }

// question puts what a server asks its user to the approver.
func (s *supervisor) question(ctx context.Context, q *provider.Question) (*provider.Answer, error) {
	return s.h.chain.Question(ctx, gates.Call{Connection: s.name, Op: q.Op}, q)
}
