package inmemory

import (
	"context"
	"fmt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// begin makes the work for a call, or finds that of an earlier call whose
// outcome the operation promised to repeat. New work comes with its context: a
// task belongs to the thing, so only CancelTask, Replace and Close end it.
func (p *Provider) begin(ctx context.Context, req *provider.CallRequest, facts provider.Facts) (w *work, own context.Context, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := onceKey{req.Op, req.Key}
	once := facts.Once && req.Key != ""
	if first := p.once[key]; once && first != nil && !first.failed() {
		return first, nil, false
	}
	if facts.Long {
		ctx = context.WithoutCancel(ctx)
	}
	w, own = newWork(ctx)
	if once {
		p.once[key] = w
	}
	if facts.Long {
		p.started++
		w.id = provider.TaskID(fmt.Sprintf("%s-task-%d", p.identity.Instance, p.started))
		p.tasks[w.id] = w
	}
	return w, own, true
}

// AwaitTask waits for a task of the thing. Giving up leaves the task running.
func (c *conn) AwaitTask(ctx context.Context, id provider.TaskID) (*provider.CallResult, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.leave()
	w, err := c.thing.task(id)
	if err != nil {
		return nil, err
	}
	res, err := c.wait(ctx, waiter{work: w})
	return c.reply(Fault{}, res, err)
}

// CancelTask ends the context of a task's operation. The task is over when the
// operation returns, as refused with the peer code "cancelled" unless it ended
// well after all.
func (c *conn) CancelTask(ctx context.Context, id provider.TaskID) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.leave()
	w, err := c.thing.task(id)
	if err != nil {
		return err
	}
	w.cancel(errTaskCancelled)
	return nil
}

func (p *Provider) task(id provider.TaskID) (*work, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.tasks[id]
	if !ok {
		// The id may act as a secret, so it stays out of the text.
		return nil, provider.Refused("unknown_task", "no such task")
	}
	return w, nil
}

// endTasks cancels all tasks and forgets them, and all once outcomes.
func (p *Provider) endTasks() []*work {
	p.mu.Lock()
	defer p.mu.Unlock()
	var running []*work
	for _, w := range p.tasks {
		running = append(running, w)
	}
	clear(p.tasks)
	clear(p.once)
	return running
}

// stopTasks ends tasks and waits until their operations returned or ctx ended.
func stopTasks(ctx context.Context, tasks []*work) error {
	for _, w := range tasks {
		w.cancel(errTaskCancelled)
	}
	for _, w := range tasks {
		select {
		case <-w.done:
		case <-ctx.Done():
			return fault.New(fault.Timeout, "a task ignores its context")
		}
	}
	return nil
}
