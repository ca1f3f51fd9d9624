package inmemory

import (
	"bytes"
	"context"
	"maps"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Call performs an operation; for errors see the package comment.
func (c *conn) Call(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.leave()
	op, ok := c.operation(req.Op)
	if !ok {
		return nil, unknown("operation", req.Op)
	}
	f := c.thing.fault(req.Op)
	if err := c.travel(ctx, f); err != nil {
		return nil, err
	}
	rec := c.thing.record(req)
	res, err := c.act(ctx, f, op, req, rec)
	rec.end(err)
	return res, err
}

func (c *conn) act(ctx context.Context, f Fault, op Operation, req *provider.CallRequest, rec *entry) (*provider.CallResult, error) {
	if err := c.meet(ctx, f); err != nil {
		return nil, err
	}
	w, own, fresh := c.thing.begin(ctx, req, op.Facts)
	if fresh {
		defer close(w.unheard)
		c.start(own, op, req, w)
	} else {
		rec.repeat()
	}
	wait := waiter{work: w, owns: fresh, listens: fresh, progress: req.Progress}
	if w.id != "" && req.Task != nil {
		wait.owns = false // whoever knows the id may come back for it
		if err := req.Task(w.id); err != nil {
			return nil, provider.Unknown(err)
		}
	}
	res, err := c.wait(ctx, wait)
	return c.reply(f, res, err)
}

// start runs the operation: for the call, or as a task of the thing.
func (c *conn) start(ctx context.Context, op Operation, req *provider.CallRequest, w *work) {
	run := c.perform(ctx, op, req, w)
	if w.id != "" {
		go w.run(run)
		return
	}
	c.fork()
	go func() { defer c.leave(); w.run(run) }()
}

func (c *conn) operation(name string) (Operation, bool) {
	op, ok := c.thing.options().Operations[name]
	if !ok {
		return Operation{}, false
	}
	if described, found := c.Manifest().Operation(name); found {
		op.Facts = described.Facts
	}
	return op, true
}

// Read performs a read; errors as those of Call.
func (c *conn) Read(ctx context.Context, req *provider.ReadRequest) (*provider.ReadResult, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.leave()
	read, ok := c.thing.options().Reads[req.Name]
	if !ok {
		return nil, unknown("read", req.Name)
	}
	f := c.thing.fault(req.Name)
	if err := c.travel(ctx, f); err != nil {
		return nil, err
	}
	if err := c.meet(ctx, f); err != nil {
		return nil, err
	}
	own := *req
	own.Args, own.Trace = bytes.Clone(req.Args), maps.Clone(req.Trace)
	res, err := c.run(ctx, func(ctx context.Context) (*provider.CallResult, error) {
		v, err := read(ctx, &own)
		if err != nil {
			return nil, err
		}
		return encodeResult(v)
	})
	if res, err = c.reply(f, res, err); err != nil {
		return nil, err
	}
	return &provider.ReadResult{Value: res.Value, Content: res.Content, Identity: res.Identity}, nil
}

// run does f in a goroutine of its own, so that one that ignores its context
// holds up nobody. It is called within an exchange.
func (c *conn) run(ctx context.Context, f func(context.Context) (*provider.CallResult, error)) (*provider.CallResult, error) {
	w, own := newWork(ctx)
	c.fork()
	go func() {
		defer c.leave()
		w.run(func() (*provider.CallResult, error) {
			res, err := f(own)
			if err != nil {
				err = answer(own, err)
			}
			return res, err
		})
	}()
	return c.wait(ctx, waiter{work: w, owns: true})
}

func unknown(kind, name string) error {
	return provider.NotSent(fault.New(fault.OpUnknown, "no %s is called %s", kind, fault.Quote(name)))
}
