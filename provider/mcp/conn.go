package mcp

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// link is what carries a session: a child process or an HTTP endpoint.
type link interface {
	// lost delivers the reason once the peer is known to be gone although the
	// session has not noticed. Nil if the session always notices.
	lost() <-chan error
	// reason says why the session ended, nil if the link does not know.
	reason() error
	// ready returns once announcements of changed lists can arrive, or shortly
	// after if they cannot; lists fetched then miss no change.
	ready(context.Context)
	// mirrors reports whether arguments can be mirrored into headers.
	mirrors() bool
	// roundTrip sends a request beside the SDK and returns once x is over, ctx
	// ended or nothing can come any more. It calls report when reports about
	// progress may have come.
	roundTrip(ctx context.Context, x *exchange, req *ownRequest, report func()) error
	// respond sends a response to a request of the server.
	respond(ctx context.Context, r *ownResponse) error
	// finish ends the session and the link, within a few seconds whatever the
	// peer does. It runs once.
	finish(*sdk.ClientSession) error
}

// conn is one MCP session as a connection.
type conn struct {
	session *sdk.ClientSession
	tap     *tap
	link    link
	scrub   *scrubber
	log     *slog.Logger
	limits  limits
	vouched facts
	triple  map[string]jsontext.Value // _meta of every request, nil before the modern era

	mirror   atomic.Pointer[map[string][]paramHeader] // arguments sent as headers too, by operation
	manifest atomic.Pointer[provider.Manifest]
	identity atomic.Pointer[provider.Identity]
	watchers *watchers
	refresh  *signal         // asks for the lists to be fetched again
	notes    func() []string // remarks of the link for the manifest

	done    chan struct{} // closed when the connection can no longer be used
	gone    chan struct{} // closed when nothing of it is left
	goneErr error         // what finishing said; readable once gone is closed
	workers sync.WaitGroup

	mu     sync.Mutex
	ended  bool
	err    error                           // why it ended, nil after Release
	nextID int                             // of flights
	flight map[int]context.CancelCauseFunc // requests in flight
}

var errReleased = errors.New("the connection was released")

// start begins the connection's own goroutines. They end with it.
func (c *conn) start() {
	ended := make(chan error, 1)
	// Wait returns when the session is over, which finish sees to.
	c.workers.Go(func() { ended <- c.session.Wait() })
	c.workers.Go(func() {
		select {
		case <-c.done:
		case err := <-c.link.lost():
			c.end(c.endReason(err))
		case err := <-ended:
			c.end(c.endReason(err))
		}
	})
	c.workers.Go(c.refreshLoop)
	c.workers.Go(func() { c.watchers.run(c.done) })
}

func (c *conn) endReason(err error) error {
	if why := c.link.reason(); why != nil {
		err = why
	}
	if err == nil {
		err = errors.New("the server ended the session")
	}
	return fault.New(fault.Unavailable, "%w", c.scrub.err(err))
}

// end ends the connection for the given reason, nil for Release. Only the
// first call counts.
func (c *conn) end(reason error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended, c.err = true, reason
	cancels := c.flight
	c.flight = nil
	c.mu.Unlock()

	cause := reason
	if cause == nil {
		cause = errReleased
	}
	for _, cancel := range cancels {
		cancel(cause)
	}
	c.tap.asker.end(cause)
	close(c.done)
	go c.finish()
}

// finish takes the connection down; gone tells when it is.
func (c *conn) finish() {
	c.goneErr = c.link.finish(c.session)
	c.tap.asker.wait()
	c.workers.Wait()
	close(c.gone)
}

// begin starts one request: the returned context ends with the connection
// too, and cancel must be called when the request is over, with a reason if it
// is cut short. After the end it fails with NotSent.
func (c *conn) begin(ctx context.Context) (_ context.Context, cancel context.CancelCauseFunc, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, provider.NotSent(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil, nil, provider.NotSent(c.endedErr())
	}
	ctx, cut := context.WithCancelCause(ctx)
	c.nextID++
	id := c.nextID
	c.flight[id] = cut
	return ctx, func(why error) {
		cut(why)
		c.mu.Lock()
		delete(c.flight, id)
		c.mu.Unlock()
	}, nil
}

func (c *conn) endedErr() error {
	if c.err != nil {
		return c.err
	}
	return fault.New(fault.Closed, "%w", errReleased)
}

// server tells one release of the server from the next.
func (c *conn) server() string { return serverName(c.session.InitializeResult().ServerInfo) }

// ID implements provider.Conn.
func (c *conn) ID() string { return "" }

// Manifest implements provider.Conn.
func (c *conn) Manifest() *provider.Manifest { return c.manifest.Load() }

// Identity implements provider.Conn.
func (c *conn) Identity() provider.Identity { return *c.identity.Load() }

// Done implements provider.Conn.
func (c *conn) Done() <-chan struct{} { return c.done }

// Err implements provider.Conn.
func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Release implements provider.Conn. A server that had to be killed is an
// error, although nothing of it is left.
func (c *conn) Release(ctx context.Context) error {
	c.end(nil)
	select {
	case <-c.gone:
		return c.goneErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch implements provider.Watcher.
func (c *conn) Watch(f func(provider.Change)) (stop func()) { return c.watchers.add(f) }

// reported takes in an identity that the server sent along with a result.
func (c *conn) reported(id *provider.Identity) {
	if id == nil {
		return
	}
	fresh := *id
	if old := c.identity.Swap(&fresh); *old != fresh {
		c.watchers.tell(provider.IdentityChanged)
	}
}
