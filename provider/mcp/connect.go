package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// dialing is what both transports need to bring a session up.
type dialing struct {
	transport sdk.Transport
	link      link
	tap       *tap
	scrub     *scrubber
	log       *slog.Logger
	version   string          // protocol version to open with
	reachedBy []string        // what the identity is made of
	notes     func() []string // remarks of the link for the manifest
	refresh   *signal         // raised when the lists changed
	limits    limits
	vouched   facts // what the host's profiles state
}

// open performs the handshake and the first discovery. On failure the link is
// left to the caller, who knows how to end it.
func (d *dialing) open(ctx context.Context) (*conn, error) {
	session, err := d.client().Connect(ctx, d.transport, &sdk.ClientSessionOptions{ProtocolVersion: d.version})
	if err != nil {
		return nil, d.failed(ctx, err)
	}
	c := &conn{
		session: session, tap: d.tap, link: d.link, scrub: d.scrub, log: d.log, limits: d.limits, vouched: d.vouched,
		watchers: newWatchers(), refresh: d.refresh, notes: d.notes,
		done: make(chan struct{}), gone: make(chan struct{}),
		flight: map[int]context.CancelCauseFunc{},
	}
	if c.triple, err = modernMeta(session.InitializeResult().ProtocolVersion, d.tap.asker.declared()); err != nil {
		session.Close()
		return nil, d.failed(ctx, err)
	}
	if c.triple == nil {
		d.tap.asker.answerWith(c.respond)
	}
	identity := firstIdentity(session.InitializeResult().Capabilities, d.reachedBy...)
	c.identity.Store(&identity)
	d.link.ready(ctx)
	manifest, err := c.discover(ctx)
	if err != nil {
		session.Close()
		return nil, d.failed(ctx, err)
	}
	c.manifest.Store(manifest)
	c.start()
	return c, nil
}

// client is the SDK's client of one connection. What it declares that a server
// can ask for is answered before it reaches the SDK.
func (d *dialing) client() *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: clientName, Version: clientVersion}, &sdk.ClientOptions{
		Logger:                     d.log,
		Capabilities:               d.tap.asker.capabilities(),
		MultiRoundTrip:             &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { d.refresh.raise() },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { d.refresh.raise() },
	})
}

// failed is the error of Connect: the context's end, the link's reason or what
// the SDK said, in that order.
func (d *dialing) failed(ctx context.Context, err error) error {
	if fe, ok := errors.AsType[*fault.Error](err); ok && fe.Code == fault.Unavailable && ctx.Err() == nil {
		return d.scrub.fault(fe)
	}
	if why := d.link.reason(); why != nil && !errors.As(err, new(*muteError)) {
		err = why
	}
	if ended := ctx.Err(); ended != nil {
		err = context.Cause(ctx)
	}
	if strays := d.tap.strays.note(); strays != "" {
		err = fmt.Errorf("%w; %s", err, strays)
	}
	return fault.New(fault.Unavailable, "cannot connect: %w", d.scrub.err(err))
}

// one is the usual result of Connect.
func one(c *conn) []provider.Conn {
	if c == nil {
		return nil
	}
	return []provider.Conn{c}
}
