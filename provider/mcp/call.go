package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Call implements provider.Conn with tools/call.
func (c *conn) Call(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
	raw, err := c.rounds(ctx, req.Op, func(ctx context.Context, in input) (json.RawMessage, error) { return c.callOnce(ctx, req, in) })
	if err != nil {
		return nil, err
	}
	result, err := decodeCall(raw)
	if err != nil {
		return nil, c.scrubbed(err)
	}
	c.reported(result.Identity)
	return result, nil
}

// callOnce sends one tools/call. A modern server that misses headers means that
// it has other tools than it had: the lists are fetched again, once.
func (c *conn) callOnce(ctx context.Context, req *provider.CallRequest, in input) (json.RawMessage, error) {
	raw, err := c.callTool(ctx, req, in)
	if fe, ok := errors.AsType[*fault.Error](err); ok && fe.PeerCode == headerMismatch && c.link.mirrors() {
		c.refetch()
		raw, err = c.callTool(ctx, req, in)
	}
	return raw, err
}

// headerMismatch is what a server says to a request whose headers it misses.
// It has not acted.
const headerMismatch = "-32020"

// traceMeta is the part of a request's metadata that everyone understands.
func traceMeta(trace map[string]string) sdk.Meta {
	meta := sdk.Meta{}
	for _, key := range metaTrace() {
		if v := trace[key]; v != "" {
			meta[key] = v
		}
	}
	return meta
}

// exchange runs one request of the SDK's session and returns the server's own
// bytes. Errors say what the wire knows about the request. Progress is
// delivered on the caller's goroutine, in order, before it returns.
func (c *conn) exchange(ctx context.Context, progress func(provider.Progress), send func(ctx context.Context, token string) (any, error)) (json.RawMessage, error) {
	inner, finish, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer finish(nil)
	x := c.tap.open()
	defer c.tap.close(x)
	defer c.limits.watch(x, finish)()

	var value any
	var sendErr error
	if progress == nil {
		value, sendErr = send(withExchange(inner, x), x.token)
	} else {
		over := make(chan struct{})
		go func() {
			defer close(over)
			value, sendErr = send(withExchange(inner, x), x.token)
		}()
		deliver(x, over, progress)
	}
	if raw := x.answered(); raw != nil {
		return raw, nil
	}
	if sendErr == nil {
		// Nothing on the wire: the SDK answered from what the server allowed
		// it to cache.
		return json.Marshal(value)
	}
	return nil, c.scrubbed(x.failure(c.cause(ctx, inner, sendErr)))
}

// cause is the best known reason for a request that failed: the caller's
// context, the connection's end, or else what the SDK said.
func (c *conn) cause(caller, inner context.Context, sdkErr error) error {
	if err := caller.Err(); err != nil {
		return err
	}
	if err := context.Cause(inner); err != nil {
		return err
	}
	if err := c.link.reason(); err != nil {
		return err
	}
	if errors.Is(sdkErr, sdk.ErrConnectionClosed) {
		return errors.New("the connection is closing")
	}
	return sdkErr
}

// deliver hands reports over until the request is over.
func deliver(x *exchange, over <-chan struct{}, progress func(provider.Progress)) {
	for {
		select {
		case <-x.wake:
			for _, p := range x.take() {
				progress(p)
			}
		case <-over:
			for _, p := range x.take() {
				progress(p)
			}
			return
		}
	}
}

// answered returns the server's result, if there is one.
func (x *exchange) answered() json.RawMessage {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.verdict != nil {
		return nil
	}
	return x.result
}

// failure is the error of a request without a result; cause is why there is
// none, as far as anyone knows.
func (x *exchange) failure(cause error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.verdict != nil:
		return x.verdict
	case x.refusal != nil:
		return provider.Refused(strconv.FormatInt(x.refusal.Code, 10), plain(x.refusal.Message))
	case x.sent:
		text := "no answer"
		if strays := x.strays.since(); strays != "" {
			text += ", but " + strays
		}
		return provider.Unknown(fmt.Errorf("%s: %w", text, cause))
	}
	return provider.NotSent(cause)
}

// scrubbed takes credentials out of an error of this connection, keeping its
// code, hint and peer code.
func (c *conn) scrubbed(err error) error {
	fe, ok := err.(*fault.Error)
	if !ok {
		return c.scrub.err(err)
	}
	return c.scrub.fault(fe)
}

// Read implements provider.Reader with resources/read.
func (c *conn) Read(ctx context.Context, req *provider.ReadRequest) (*provider.ReadResult, error) {
	uri, err := c.address(req)
	if err != nil {
		return nil, err
	}
	raw, err := c.rounds(ctx, "", func(ctx context.Context, in input) (json.RawMessage, error) {
		params := &sdk.ReadResourceParams{Meta: traceMeta(req.Trace), URI: uri, InputResponses: in.forSDK()}
		if in.state != nil {
			params.RequestState = *in.state
		}
		return c.exchange(ctx, nil, func(ctx context.Context, _ string) (any, error) { return c.session.ReadResource(ctx, params) })
	})
	if err != nil {
		return nil, err
	}
	result, err := decodeRead(raw)
	if err != nil {
		return nil, c.scrubbed(err)
	}
	c.reported(result.Identity)
	return result, nil
}
