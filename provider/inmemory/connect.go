package inmemory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Connect returns one connection for each of Options.IDs. Mistakes in the
// Options are fault.ProviderInvalid; any other failure is NotSent.
func (p *Provider) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	opts = opts.Normal()
	if err := p.prepare(ctx, opts); err != nil {
		return nil, err
	}
	ids := p.options().IDs
	if len(ids) == 0 {
		ids = []string{""}
	}
	var out []provider.Conn
	for _, id := range ids {
		c, err := p.attach(newConn(p, id, opts))
		if err != nil {
			return nil, err // closed meanwhile, which ended the ones before
		}
		out = append(out, c)
	}
	return out, nil
}

// prepare does what every attempt to connect begins with.
func (p *Provider) prepare(ctx context.Context, opts *provider.ConnectOptions) error {
	if err := p.Check(); err != nil {
		return err
	}
	for _, secret := range p.options().Credentials {
		opts.Redact(secret)
	}
	f, err := p.dial(ctx)
	if err != nil {
		return err
	}
	if f.Drop {
		return provider.NotSent(errDropped)
	}
	return nil
}

// attach makes c known to its thing, which may have ended meanwhile.
func (p *Provider) attach(c *conn) (provider.Conn, error) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.conns[c] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		return nil, provider.NotSent(errGone)
	}
	c.opts.Logger.Debug("connected in memory", "connection", c.opts.Name, "instance", p.Identity().Instance)
	return c.ability(), nil
}

var errGone = fault.New(fault.Closed, "in-memory thing is gone")

// Provision makes a new thing with an instance, state and events of its own,
// and connects to it. The thing is gone once the connection is released; a
// dropped connection leaves it for Reattach.
func (p *Provider) Provision(ctx context.Context, req *provider.ProvisionRequest, opts *provider.ConnectOptions) (provider.Conn, error) {
	opts = opts.Normal()
	if err := p.prepare(ctx, opts); err != nil {
		return nil, err
	}
	o, err := p.plan(ctx, req)
	if err != nil {
		return nil, err
	}
	thing := newThing(p.family, p, o)
	if err := thing.Check(); err != nil {
		return nil, err
	}
	p.family.add(thing)
	c := newConn(thing, "", opts)
	c.owns = true
	return thing.attach(c)
}

// plan asks what to make.
func (p *Provider) plan(ctx context.Context, req *provider.ProvisionRequest) (Options, error) {
	o := p.options()
	if o.Provision == nil {
		return o, nil
	}
	own := *req
	own.Setup, own.Host = bytes.Clone(req.Setup), bytes.Clone(req.Host)
	made, err := o.Provision(ctx, &own)
	if _, coded := errors.AsType[*fault.Error](err); err != nil && !coded {
		err = provider.NotSent(err)
	}
	return made, err
}

// Reattach connects to a provisioned thing that was not released. state is the
// JSON of the Identity of an earlier connection to it.
func (p *Provider) Reattach(ctx context.Context, state json.RawMessage, opts *provider.ConnectOptions) (provider.Conn, error) {
	opts = opts.Normal()
	var id provider.Identity
	if err := json.Unmarshal(state, &id); err != nil {
		return nil, provider.NotSent(fault.New(fault.ConnectionInvalid, "state is not an identity: %w", err))
	}
	if err := p.prepare(ctx, opts); err != nil {
		return nil, err
	}
	for _, thing := range p.Provisioned() {
		if thing.Identity().Instance == id.Instance {
			c := newConn(thing, "", opts)
			c.owns = true
			return thing.attach(c)
		}
	}
	return nil, provider.NotSent(errGone)
}

// Provisioned returns the things that Provision made and that still exist,
// oldest first. Each is scripted like the first one.
func (p *Provider) Provisioned() []*Provider {
	var out []*Provider
	for _, t := range p.family.under(p) {
		if t.parent == p && !t.gone() {
			out = append(out, t)
		}
	}
	return out
}

func (p *Provider) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}
