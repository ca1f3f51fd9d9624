package mcpserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"
)

// recordTimeout bounds the writing of an outcome, which goes on although the
// caller gave up: without it the effect would be in doubt.
const recordTimeout = 10 * time.Second

// runs are the handlers of once operations that run now, by entry.
type runs struct {
	mu sync.Mutex
	by map[string]*run // guarded by mu
}

// run is one handler at work for everyone who sent its key.
type run struct {
	print   string // of the operation and its arguments
	cancel  context.CancelFunc
	over    chan struct{} // closed when ans is there
	ans     answer
	waiting int // guarded by runs.mu
}

// join adds a waiter to the run of an entry, which it makes if there is none.
func (rs *runs) join(e *entry, start func() *run) (r *run, fresh bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r = rs.by[e.id]
	if r == nil {
		r, fresh = start(), true
		rs.by[e.id] = r
	}
	r.waiting++
	return r, fresh
}

// leave takes a waiter away and reports whether it was the last one.
func (rs *runs) leave(r *run) (last bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.waiting--
	return r.waiting == 0
}

func (rs *runs) end(e *entry, r *run) {
	rs.mu.Lock()
	delete(rs.by, e.id)
	rs.mu.Unlock()
	r.cancel()
	close(r.over)
}

// once answers a call that has a key with the first outcome of that key.
func (k *Kit) once(ctx context.Context, c *Call, args json.RawMessage) answer {
	var inner context.Context
	r, fresh := k.runs.join(c.entry, func() *run {
		r := &run{print: c.entry.print, over: make(chan struct{})}
		// The work is everyone's who waits for it, not the first caller's.
		inner, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
		return r
	})
	if fresh {
		go func() { // awaited by the last one who leaves
			defer k.runs.end(c.entry, r)
			r.ans = k.first(inner, c, args)
		}()
	}
	if r.print != c.entry.print {
		k.quit(r)
		return reused()
	}
	select {
	case <-r.over:
		k.runs.leave(r)
		return r.ans
	case <-ctx.Done():
	}
	k.quit(r)
	select {
	case <-r.over:
		return r.ans
	default:
		return interrupted(ctx)
	}
}

// quit takes a waiter away that does not want the answer. The last one ends the
// work and sees it ended.
func (k *Kit) quit(r *run) {
	if k.runs.leave(r) {
		r.cancel()
		<-r.over
	}
}

func reused() answer {
	return refuse(codeReused, "the key was used for another call, of other arguments or another operation")
}

// first runs the handler unless the key has an outcome, and records how it ended.
func (k *Kit) first(ctx context.Context, c *Call, args json.RawMessage) answer {
	known, ok := k.keys.begin(ctx, c.entry, c.op.repeatable)
	if ok {
		return known
	}
	a := c.op.perform(ctx, c, args)
	if c.committed != nil {
		return a
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	switch {
	case a.outcome != nil:
		kept, err := k.keys.keepOutcome(ctx, c.entry, a.outcome)
		if err != nil {
			k.opts.Logger.Error("an outcome could not be recorded", slog.String("operation", c.op.name), slog.Any("error", err))
			return answer{unknown: "it was carried out, but its outcome could not be recorded"}
		}
		return answer{outcome: kept}
	case a.refusal != nil:
		if err := k.keys.forget(ctx, c.entry); err != nil {
			k.opts.Logger.Error("a key could not be freed", slog.String("operation", c.op.name), slog.Any("error", err))
		}
	}
	return a
}
