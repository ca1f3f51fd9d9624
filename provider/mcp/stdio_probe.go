package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// defaultProbeTimeout is how long a server may be silent about
// server/discover. Some answer nothing at all to a method they do not know; a
// server that is only slow to start loses no more than this.
const defaultProbeTimeout = 5 * time.Second

// muteError is a server that did not stand the probe: it has to be started
// again, since what it makes of the unanswered request is anybody's guess.
type muteError struct{ cause error }

func (e *muteError) Error() string {
	return "the server does not answer server/discover: " + e.cause.Error()
}
func (e *muteError) Unwrap() error { return e.cause }

var errSilent = errors.New("it is silent")

// open brings a session up with a server that was just started, in its era. A
// server that must not be probed has a patience of 0, and is met with initialize.
func (c *lineConn) open(ctx context.Context, d *dialing, patience time.Duration) (*conn, error) {
	d.transport, d.link, d.tap, d.log = c, c, c.tap, c.log
	d.version, d.notes, d.refresh = versionLegacy, c.remarks, newSignal()
	c.missed = d.refresh.raise
	if patience > 0 {
		found, err := c.probe(ctx, patience)
		if err != nil {
			return nil, d.failed(ctx, err)
		}
		c.discovered, d.version = found, found.version
	}
	return d.open(ctx)
}

// probe asks the server which era it speaks, before the SDK comes in. A server
// that stays silent or ends is a muteError.
func (c *lineConn) probe(ctx context.Context, patience time.Duration) (opening, error) {
	patient, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	return probing(func(version string) (*jsonrpc.Response, error) {
		answer, err := c.ask(patient, probeRequest(version, c.tap.asker.declared()))
		if err != nil {
			return nil, c.muted(ctx, patient, err)
		}
		return answer, nil
	})
}

// muted says why there was no answer to the probe.
func (c *lineConn) muted(ctx, patient context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case patient.Err() != nil:
		return &muteError{context.Cause(patient)}
	}
	if why := c.reason(); why != nil {
		err = why
	}
	return &muteError{err}
}

// ask writes the probe and waits for its answer. What else the server says
// this early is for nobody.
func (c *lineConn) ask(ctx context.Context, req *jsonrpc.Request) (*jsonrpc.Response, error) {
	if err := c.write(ctx, nil, req); err != nil {
		return nil, err
	}
	for {
		msg, err := c.Read(ctx)
		if err != nil {
			return nil, err
		}
		if r, ok := msg.(*jsonrpc.Response); ok && isProbe(r) {
			return r, nil
		}
	}
}
