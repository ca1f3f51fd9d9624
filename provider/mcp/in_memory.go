package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// InMemoryOptions configure the connections to a server of this process. The
// zero value works. The options are copied; changing them later has no effect.
type InMemoryOptions struct {
	// MaxLine is the size in bytes of the longest message that the server may
	// send; 0 is 32 MiB. A longer one fails the call that it answers.
	MaxLine int
	// Grace is how long Release waits for tools that still run, once their
	// contexts have ended; 0 is 2 s.
	Grace time.Duration
	// ConnectTimeout bounds Connect as a whole; 0 is 30 s.
	ConnectTimeout time.Duration
	// Timeout is how long any call or read may take, whatever it reports; 0 is
	// without limit. Running into it or into IdleTimeout is [fault.Timeout] and
	// [fault.OutcomeUnknown]; the tool's context ends.
	Timeout time.Duration
	// IdleTimeout is how long a call or read may go on without an answer or a
	// report about its progress; 0 is without limit. The time that a person
	// takes to answer a question of the server counts for neither.
	IdleTimeout time.Duration
}

func (o *InMemoryOptions) limits() limits {
	return limits{connect: o.ConnectTimeout, call: o.Timeout, idle: o.IdleTimeout}
}

// InMemory returns the provider of an MCP server that lives in this process,
// reached as if it were a child process, in the newest era it supports.
//
// The server stays the caller's: it may be served elsewhere too, and tools may
// be added to it at any time. Each Connect opens a session of its own with it.
// Release ends that session and the contexts of the tools that run for it, and
// leaves the server and its other sessions alone. A tool that goes on all the
// same cannot be stopped: Release then returns an error with [fault.Closed]
// after Grace, and the tool's goroutine is left. A tool that panics takes this
// process with it.
//
// Two of these providers are equal if they have the same server and the same
// options. The identity's instance stays the same as long as the server's name
// does, unless the server declares an identity itself.
func InMemory(server *sdk.Server, opts *InMemoryOptions) provider.Provider {
	p := &inMemory{server: server}
	if opts != nil {
		p.opts = *opts
	}
	return p
}

type inMemory struct {
	server *sdk.Server
	opts   InMemoryOptions
}

// Check implements provider.Checker.
func (p *inMemory) Check() error {
	var errs []error
	if p.server == nil {
		errs = append(errs, invalid("there is no server", "make one with NewServer of the MCP SDK"))
	}
	if p.opts.MaxLine < 0 || p.opts.Grace < 0 {
		errs = append(errs, invalid("MaxLine and Grace cannot be negative", "leave them 0 for the defaults"))
	}
	errs = append(errs, p.opts.limits().check())
	return errors.Join(errs...)
}

// Equal implements provider.Equaler.
func (p *inMemory) Equal(other provider.Provider) bool {
	o, ok := other.(*inMemory)
	return ok && p.server == o.server && p.opts == o.opts
}

// Connect implements provider.Provider.
func (p *inMemory) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := p.opts.limits().connecting(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return nil, fault.New(fault.Unavailable, "cannot connect: %w", context.Cause(ctx))
	}
	opts = opts.Normal()
	log := opts.Logger.With(slog.String("connection", opts.Name))
	server, err := serve(p.server)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot open a session with the server: %w", err)
	}
	lines := newLineConn(server, newTap(newAsker(opts.Ask, log)), orDefault(p.opts.MaxLine, defaultMaxLine), log)
	d := &dialing{scrub: &scrubber{redact: opts.Redact}, limits: p.opts.limits(), vouched: vouchers(opts.Profiles)}
	c, err := lines.open(ctx, d, orDefault(p.opts.ConnectTimeout, defaultConnectTimeout))
	if err != nil {
		lines.Close() // a tool that goes on is no news beside err
		return nil, err
	}
	lines.settle(orDefault(p.opts.Grace, defaultGrace))
	identity := namedIdentity(c.session.InitializeResult())
	c.identity.Store(&identity)
	return one(c), nil
}

// namedIdentity is the identity that the server declares, or else one made of
// its name: there is nothing else by which it is reached.
func namedIdentity(opened *sdk.InitializeResult) provider.Identity {
	name := ""
	if opened.ServerInfo != nil {
		name = opened.ServerInfo.Name
	}
	return firstIdentity(opened.Capabilities, "memory", name)
}

// inProcess is a session of a server of this process, seen from outside.
type inProcess struct {
	to, from *pipe
	over     chan struct{} // closed when the session and all its handlers ended
}

// serve opens a session with a server.
func serve(server *sdk.Server) (*inProcess, error) {
	p := &inProcess{to: newPipe(), from: newPipe(), over: make(chan struct{})}
	// The session's own context: its end is that of its input, not any caller's.
	session, err := server.Connect(context.Background(), &sdk.IOTransport{Reader: p.to, Writer: p.from, MaxLineLength: -1}, nil)
	if err != nil {
		return nil, err
	}
	go func() { // ended by stop, unless a tool goes on
		defer close(p.over)
		session.Wait()
		session.Close() // for what the SDK keeps beside the session
	}()
	return p, nil
}

// input, output and clean implement peer.
func (p *inProcess) input() io.Writer      { return p.to }
func (p *inProcess) output() io.Reader     { return p.from }
func (p *inProcess) clean(s string) string { return s }

// ending implements peer.
func (p *inProcess) ending() error { return errors.New("the server ended the session") }

// stop implements peer: the end of its input ends the session.
func (p *inProcess) stop(grace time.Duration) error {
	p.to.Close()
	defer p.from.Close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.over:
		return nil
	case <-timer.C:
		return fault.New(fault.Closed, "a tool of the server still runs %v after its context ended", grace).
			WithHint("have tools return when their context ends")
	}
}
