// Package engine holds what the stores of this module have in common: counting
// transactions until Close, the queue of writers, and signals for changes.
package engine

import (
	"context"
	"sync"

	"github.com/bridle-dev/bridle/fault"
)

// Gate lets transactions in, one writer at a time, until it is closed. All
// methods are safe for concurrent use.
type Gate struct {
	writer  chan struct{} // holds one token while a writer is inside
	closing chan struct{} // closed when Close begins

	mu     sync.Mutex
	closed bool           // guarded by mu
	inside sync.WaitGroup // Add only under mu while not closed
}

// NewGate returns an open gate.
func NewGate() *Gate {
	return &Gate{writer: make(chan struct{}, 1), closing: make(chan struct{})}
}

// Enter lets a transaction in that waits for no other. leave must be called once
// when it is done. It fails with closed, or as [Ended] when ctx has ended.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	if err := Ended(ctx); err != nil {
		return nil, err
	}
	if err := g.enter(); err != nil {
		return nil, err
	}
	return g.inside.Done, nil
}

// Write lets a writer in once no other is inside. It fails as Enter does, also
// while waiting.
func (g *Gate) Write(ctx context.Context) (leave func(), err error) {
	if err := Ended(ctx); err != nil {
		return nil, err
	}
	if err := g.enter(); err != nil {
		return nil, err
	}
	select {
	case g.writer <- struct{}{}:
		return func() { <-g.writer; g.inside.Done() }, nil
	case <-g.closing:
		err = Closed()
	case <-ctx.Done():
		err = Ended(ctx)
	}
	g.inside.Done()
	return nil, err
}

func (g *Gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return Closed()
	}
	g.inside.Add(1)
	return nil
}

// Close refuses everyone from now on and waits for those inside.
func (g *Gate) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.closing)
	}
	g.mu.Unlock()
	g.inside.Wait()
}

// Closing is closed when Close begins. Whoever waits inside for something else
// than the store gives up then.
func (g *Gate) Closing() <-chan struct{} { return g.closing }

// Closed is the error of everything after Close.
func Closed() error { return fault.New(fault.Closed, "the store is closed") }

// Ended returns nil while ctx lasts. Afterwards it returns cancelled, or
// timeout if the deadline passed, wrapping the context's cause.
func Ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return &fault.Error{Code: fault.CodeOf(ctx.Err()), Err: context.Cause(ctx)}
}
