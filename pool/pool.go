package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

const (
	// RenewEvery is how often a lease is renewed, and how often a pool looks at
	// those of others.
	RenewEvery = 15 * time.Second
	// ReclaimAfter is how long a lease may go without being renewed.
	ReclaimAfter = 2 * time.Minute
	// HoldFor is how long after its last renewal a holder stops: before anyone
	// may reclaim the lease.
	HoldFor = ReclaimAfter - RenewEvery
	// DefaultWait is how long a request waits for room when nothing else is said:
	// about as long as a lease is held by those who are quick.
	DefaultWait = 5 * time.Minute

	// makeLimit bounds Provision and Reattach, which may install something first.
	makeLimit = 2 * time.Minute
	// releaseLimit bounds Release, which providers bound themselves. Close may have
	// less.
	releaseLimit = 30 * time.Second
	// patience is how long a provider may take to return once its context ended.
	patience = time.Second
	// storeLimit bounds one transaction: several renewals fit into HoldFor.
	storeLimit = 10 * time.Second
)

// Config describes a pool. Name, Provider, Owner and Max are required.
type Config struct {
	// Name is the pool's name: that of its connection. Without ":".
	Name string
	// Provider makes the instances; it must be a provider.Provisioner. If it is a
	// provider.Reattacher too, leases survive this process.
	Provider provider.Provider
	// Owner is this process, with the store.
	Owner *Owner
	// Max is how many instances may exist at once, at least 1. All processes that
	// share the store should have the same.
	Max int
	// Setup holds the host's fields of the setup, marshalled as a JSON object. No
	// request may set a field that is in it.
	Setup any
	// Wait is how long a request waits for room that does not say so itself.
	// Default DefaultWait; negative does not wait.
	Wait time.Duration
	// Options go to the provider, the profiles among them say what setups must look
	// like. Track is called besides the pool's own. Nil is no options.
	Options *provider.ConnectOptions
}

// Pool leases fresh connections. Make it with New.
type Pool struct {
	config Config
	owner  *Owner
	maker  provider.Provisioner
	setups *setups

	ctx    context.Context // ends with Close; nobody else's would do for what the pool does by itself
	cancel context.CancelCauseFunc
	ends   context.Context // of releases; ends with the time that Close has
	cut    context.CancelCauseFunc
	tasks  sync.WaitGroup // the loop, and what is being made or ended; grows under mu only while not closed

	mu         sync.Mutex
	closed     bool                 // guarded by mu
	queue      []*waiter            // guarded by mu
	held       map[string]*instance // guarded by mu; what exists here, by lease
	reclaiming map[string]bool      // guarded by mu
	foreign    int                  // guarded by mu; leases of other processes as last seen
	left       int                  // guarded by mu; leases of ours that could not be ended
	status     connection.PoolStatus

	seen map[string]sighting // only the loop's
}

// New checks the configuration and begins to watch the leases of that name.
// Mistakes are CONNECTION_INVALID.
func New(c Config) (*Pool, error) {
	p, err := build(c)
	if err != nil {
		fe := fault.From(err, fault.ConnectionInvalid)
		return nil, fe.At(c.Name, "")
	}
	p.tasks.Go(p.loop)
	return p, nil
}

// Check finds the mistakes that New would find, but for a missing Owner, and as
// New does. It asks nobody and starts nothing.
func Check(c Config) error {
	if _, err := setupsOf(c); err != nil {
		return fault.From(err, fault.ConnectionInvalid).At(c.Name, "")
	}
	return nil
}

// setupsOf checks a configuration and reads the setups of its profiles.
func setupsOf(c Config) (*setups, error) {
	_, makes := c.Provider.(provider.Provisioner)
	switch {
	case !validName(c.Name):
		return nil, fault.New(fault.ConnectionInvalid, "pool name %s is malformed", fault.Quote(c.Name))
	case !makes:
		return nil, fault.New(fault.ConnectionInvalid, "provider cannot make connections on demand").
			WithHint("Clear Entry.Pool, or use a provider that can provision.")
	case c.Max < 1:
		return nil, fault.New(fault.ConnectionInvalid, "pool of at most %d connections", c.Max).WithHint("Set Pool.Max to 1 or more.")
	}
	return newSetups(c.Setup, c.Options.Normal().Profiles)
}

func build(c Config) (*Pool, error) {
	if c.Owner == nil {
		return nil, fault.New(fault.ConnectionInvalid, "pool has no owner").WithHint("Set Config.Owner to what Register returned.")
	}
	s, err := setupsOf(c)
	if err != nil {
		return nil, err
	}
	c.Options = c.Options.Normal()
	if c.Wait == 0 {
		c.Wait = DefaultWait
	}
	p := &Pool{config: c, owner: c.Owner, maker: c.Provider.(provider.Provisioner), setups: s,
		held: map[string]*instance{}, reclaiming: map[string]bool{}, seen: map[string]sighting{}}
	// The pool outlives whoever makes it; Close ends this.
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.ends, p.cut = context.WithCancelCause(context.WithoutCancel(p.ctx))
	return p, nil
}

// Status tells what the pool holds. It asks nobody.
func (p *Pool) Status() connection.PoolStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.MaxOpen, s.Open = p.config.Max, len(p.held)+p.foreign+p.left
	for _, i := range p.held {
		if i.phase == making || i.phase == leased {
			s.InUse++
		}
	}
	return s
}

// Close refuses requests, those in the queue included, ends all instances of
// this process and returns when they are gone or, a moment after ctx ended, cut:
// then only a provider that ignores its context is still at it. Kept ones that can
// be left to a Reattacher (provider.Detacher) go on waiting for their resume. What
// could not be ended is reclaimed by others, or reaped; a timeout tells of it. It is
// bounded, and closing twice is no error.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	var all []*instance
	for _, i := range p.held {
		p.startEnd(i, fault.New(fault.Closed, "pool is closed").At(p.config.Name, ""))
		all = append(all, i)
	}
	p.mu.Unlock()
	if first {
		p.cancel(fault.New(fault.Closed, "pool is closed").At(p.config.Name, ""))
	}
	ctx, cancel := context.WithTimeout(ctx, releaseLimit+storeLimit)
	defer cancel()
	done := make(chan struct{})
	go func() { // ends with the last task; a provider that never returns keeps it
		p.tasks.Wait()
		close(done)
	}()
	if !p.ended(ctx, done) {
		return fault.New(fault.Timeout, "pool has not ended: %w", context.Cause(ctx)).At(p.config.Name, "")
	}
	var errs []error
	for _, i := range all {
		errs = append(errs, i.outcome())
	}
	return errors.Join(errs...)
}

// ended waits for all tasks, and cuts releases when ctx ends. It reports whether
// nothing is left.
func (p *Pool) ended(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	p.cut(fault.New(fault.Timeout, "pool closes: %w", context.Cause(ctx)).At(p.config.Name, ""))
	wait := time.NewTimer(2 * patience) // that of guard, and for what is written then
	defer wait.Stop()
	select {
	case <-done:
		return true
	case <-wait.C:
		return false
	}
}

// fail is an error of this pool.
func (p *Pool) fail(code fault.Code, format string, args ...any) *fault.Error {
	return fault.New(code, format, args...).At(p.config.Name, "")
}

// failed places the error of a provider or a store.
func (p *Pool) failed(err error, otherwise fault.Code) error {
	if err == nil {
		return nil
	}
	fe := *fault.From(err, otherwise)
	if fe.Connection == "" {
		fe.Connection = p.config.Name
	}
	return &fe
}

func (p *Pool) emit(ev event.Event) {
	ev.Connection = p.config.Name
	p.owner.emit(ev)
}

// brief is a context for one transaction, whoever waits for it.
func brief(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
}
