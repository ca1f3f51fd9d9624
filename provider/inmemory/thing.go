package inmemory

import (
	"context"
	"strconv"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Identity is which incarnation of the thing exists now.
func (p *Provider) Identity() provider.Identity {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.identity
}

// Update changes what the thing offers, and tells watchers that the manifest
// changed. f gets a copy to change; if the result does not pass Check, nothing
// changes and the error is returned. Surface and IDs are fixed at New.
func (p *Provider) Update(f func(*Options)) error {
	o := p.options().clone()
	f(&o)
	if err := o.check(); err != nil {
		return err
	}
	p.mu.Lock()
	o.Surface, o.IDs = p.opts.Surface, p.opts.IDs
	p.opts = o.clone()
	p.revision++
	p.mu.Unlock()
	p.announce(provider.ManifestChanged)
	return nil
}

// Replace makes the thing a new incarnation, as a restarted browser is: it has
// another instance, and its tasks and once outcomes are gone. Connections live
// on and learn of it by their watchers, their next result and their next event.
func (p *Provider) Replace() {
	tasks := p.endTasks()
	instance := p.family.instance(p.options().Surface)
	p.mu.Lock()
	p.identity.Instance, p.identity.Epoch = instance, ""
	p.renamed = true
	p.mu.Unlock()
	for _, w := range tasks {
		w.cancel(errTaskCancelled)
	}
	p.announce(provider.IdentityChanged)
}

// Reload makes the thing the same incarnation with its code loaded again: only
// its epoch changes.
func (p *Provider) Reload() {
	p.mu.Lock()
	n, _ := strconv.Atoi(p.identity.Epoch)
	p.identity.Epoch = strconv.Itoa(n + 1)
	p.renamed = true
	p.mu.Unlock()
	p.announce(provider.IdentityChanged)
}

// Drop ends every connection to the thing, and to things it provisioned, with
// a fault.Unavailable error. Calls in flight end with an unknown outcome. The
// thing itself goes on, and can be connected to again.
func (p *Provider) Drop() {
	for _, t := range p.family.under(p) {
		t.endConns(errDropped)
	}
}

// Close drops all connections and ends all tasks of the thing and of things it
// provisioned. It waits for what still runs at most a second. A closed thing
// cannot be connected to. Closing twice is no error.
func (p *Provider) Close() error {
	// Close takes no context, so nothing else bounds the wait.
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	var tasks []*work
	var conns []*conn
	for _, t := range p.family.under(p) {
		conns = append(conns, t.connections()...)
		tasks = append(tasks, t.shut(errClosed)...)
	}
	err := stopTasks(ctx, tasks)
	for _, c := range conns {
		select {
		case <-c.idle:
		case <-ctx.Done():
			err = fault.New(fault.Timeout, "an operation ignores its context")
		}
	}
	return err
}

var errClosed = fault.New(fault.Closed, "in-memory provider was closed")

// vanish ends a thing whose only owner released it.
func (p *Provider) vanish() {
	p.family.remove(p)
	for _, w := range p.shut(errReleased) {
		w.cancel(errTaskCancelled)
	}
}

func (p *Provider) shut(reason error) []*work {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.endConns(reason)
	return p.endTasks()
}

func (p *Provider) endConns(reason error) {
	for _, c := range p.connections() {
		c.end(reason)
	}
}

func (p *Provider) connections() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*conn
	for c := range p.conns {
		out = append(out, c)
	}
	return out
}

func (p *Provider) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Provider) options() Options {
	o, _ := p.optionsAt()
	return o
}

// optionsAt returns the options and how often they changed. Their maps are
// replaced, never written to.
func (p *Provider) optionsAt() (Options, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opts, p.revision
}
