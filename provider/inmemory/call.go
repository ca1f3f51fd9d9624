package inmemory

import (
	"context"
	"encoding/json"

	"github.com/bridle-dev/bridle/provider"
)

// Call is one call as its operation sees it. It belongs to the goroutine that
// runs the operation, until the operation returns.
type Call struct {
	req   provider.CallRequest // our own copy
	conn  *conn
	work  *work
	ended <-chan struct{} // of the operation's context

	// uses is written by every method and when the operation returned, with no
	// lock on purpose: a Call that is shared or kept is a data race.
	uses int
}

// Key is the idempotency key: the same key is the same intended effect.
func (c *Call) Key() provider.Key {
	c.uses++
	return c.req.Key
}

// Execution is the run that the call belongs to.
func (c *Call) Execution() provider.ExecutionID {
	c.uses++
	return c.req.Execution
}

// Approved reports whether the call carries the token of a granted approval.
func (c *Call) Approved() bool {
	c.uses++
	return c.req.Approval != ""
}

// Args are the arguments as they arrived, byte for byte; they belong to the
// operation.
func (c *Call) Args() json.RawMessage {
	c.uses++
	return c.req.Args
}

// Request is the whole request, without the caller's functions.
func (c *Call) Request() provider.CallRequest {
	c.uses++
	return cloneRequest(&c.req)
}

// Identity is the incarnation of the thing that was called.
func (c *Call) Identity() provider.Identity {
	c.uses++
	return c.conn.thing.Identity()
}

// Emit makes an event of the thing happen, as Provider.Emit does.
func (c *Call) Emit(event string, payload any) provider.EventID {
	c.uses++
	return c.conn.thing.Emit(event, payload)
}

// Progress tells the caller how far the operation got and returns when it was
// told, or at once if it no longer waits. A total of 0 is unknown.
func (c *Call) Progress(done, total float64, message string) {
	c.uses++
	select {
	case c.work.progress <- provider.Progress{Done: done, Total: total, Message: message}:
	case <-c.work.unheard:
	case <-c.ended:
	}
}

// perform runs the operation for a request and returns its answer as an error
// of the contract.
func (c *conn) perform(ctx context.Context, op Operation, req *provider.CallRequest, w *work) func() (*provider.CallResult, error) {
	call := &Call{req: cloneRequest(req), conn: c, work: w, ended: ctx.Done()}
	return func() (*provider.CallResult, error) {
		res, err := op.Run(ctx, call)
		call.uses++
		if err != nil {
			return nil, answer(ctx, err)
		}
		return cloneResult(res), nil
	}
}
