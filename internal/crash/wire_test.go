package crash_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"sync"

	"github.com/bridle-dev/bridle/provider"
)

// request is one line to the peer; each has a network connection of its own.
type request struct {
	Method string          `json:"method"` // "call", "read", "await", "listen", "ask", "provision", "reattach" or "release"
	Op     string          `json:"op,omitempty"`
	Key    provider.Key    `json:"key,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Task   provider.TaskID `json:"task,omitempty"`
	After  provider.Cursor `json:"after,omitempty"`
	Thing  string          `json:"thing,omitempty"` // that is leased
}

// reply is one line from the peer. To "listen" there is one with a cursor, and
// then one for each event.
type reply struct {
	Value   json.RawMessage `json:"value,omitempty"`
	Task    provider.TaskID `json:"task,omitempty"`
	Refused string          `json:"refused,omitempty"`
	Cursor  provider.Cursor `json:"cursor,omitempty"`
	Event   *provider.Event `json:"event,omitempty"`
	Thing   string          `json:"thing,omitempty"`
}

// client is the provider that the child uses, and its only connection.
type client struct {
	address string
	fuse    *fuse
	thing   string // that is leased, "" for the shared one
	done    chan struct{}
	once    sync.Once
}

func newClient(address string, f *fuse) *client {
	return &client{address: address, fuse: f, done: make(chan struct{})}
}

func (c *client) Connect(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
	return []provider.Conn{c}, nil
}

func (c *client) ID() string                   { return "" }
func (c *client) Manifest() *provider.Manifest { return manifest() }
func (c *client) Identity() provider.Identity {
	return provider.Identity{Surface: "ledger", Instance: "the only one"}
}
func (c *client) Done() <-chan struct{} { return c.done }
func (c *client) Err() error            { return nil }

func (c *client) Release(context.Context) error {
	c.once.Do(func() { close(c.done) })
	return nil
}

func (c *client) Call(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
	got, err := c.exchange(ctx, request{Method: "call", Op: req.Op, Key: req.Key, Args: req.Args})
	if err != nil {
		return nil, err
	}
	if got.Task == "" {
		return &provider.CallResult{Value: got.Value}, nil
	}
	if err := req.Task(got.Task); err != nil {
		return nil, provider.Unknown(err)
	}
	return c.AwaitTask(ctx, got.Task)
}

// AwaitTask implements provider.Tasker.
func (c *client) AwaitTask(ctx context.Context, id provider.TaskID) (*provider.CallResult, error) {
	got, err := c.exchange(ctx, request{Method: "await", Task: id})
	if err != nil {
		return nil, err
	}
	return &provider.CallResult{Value: got.Value}, nil
}

// CancelTask implements provider.Tasker.
func (c *client) CancelTask(context.Context, provider.TaskID) error { return nil }

// Read implements provider.Reader.
func (c *client) Read(ctx context.Context, req *provider.ReadRequest) (*provider.ReadResult, error) {
	got, err := c.exchange(ctx, request{Method: "read", Op: req.Name, Args: req.Args})
	if err != nil {
		return nil, err
	}
	return &provider.ReadResult{Value: got.Value}, nil
}

// exchange sends one request and reads its answer.
func (c *client) exchange(ctx context.Context, req request) (*reply, error) {
	if req.Thing == "" {
		req.Thing = c.thing
	}
	l, err := c.open(ctx, req)
	if err != nil {
		return nil, err
	}
	defer l.close()
	got, err := l.next()
	if err != nil {
		return nil, provider.Unknown(err)
	}
	c.fuse.burn("answered " + req.Method)
	if got.Refused != "" {
		return nil, provider.Refused("no", got.Refused)
	}
	return got, nil
}

// line is a network connection to the peer that ends with a context.
type line struct {
	net.Conn
	read *json.Decoder
	stop func() bool
}

// open sends a request on a connection of its own.
func (c *client) open(ctx context.Context, req request) (*line, error) {
	c.fuse.burn("before " + req.Method)
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, provider.NotSent(err)
	}
	l := &line{Conn: conn, read: json.NewDecoder(bufio.NewReader(conn))}
	l.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		l.close()
		return nil, provider.Unknown(err)
	}
	c.fuse.burn("sent " + req.Method)
	return l, nil
}

func (l *line) next() (*reply, error) {
	got := new(reply)
	return got, l.read.Decode(got)
}

func (l *line) close() {
	l.stop()
	_ = l.Conn.Close()
}

// Listen implements provider.Listener.
func (c *client) Listen(ctx context.Context, req *provider.ListenRequest) (provider.Subscription, error) {
	// ctx bounds the start only, and the line lasts until it is closed.
	l, err := c.open(context.WithoutCancel(ctx), request{Method: "listen", Op: req.Event, Args: req.Args, After: req.After})
	if err != nil {
		return nil, err
	}
	first, err := l.next()
	if err != nil {
		l.close()
		return nil, provider.NotSent(err)
	}
	c.fuse.burn("answered listen")
	return &subscription{line: l, fuse: c.fuse, cursor: first.Cursor}, nil
}

type subscription struct {
	line   *line
	fuse   *fuse
	cursor provider.Cursor
}

func (s *subscription) Cursor() provider.Cursor { return s.cursor }

func (s *subscription) Events() iter.Seq2[provider.Event, error] {
	return func(yield func(provider.Event, error) bool) {
		for {
			got, err := s.line.next()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if errors.Is(err, io.EOF) {
				err = provider.Unknown(err)
			}
			if err != nil {
				yield(provider.Event{}, err)
				return
			}
			s.fuse.burn("event")
			if !yield(*got.Event, nil) {
				return
			}
		}
	}
}

func (s *subscription) Close(context.Context) error {
	s.line.close()
	return nil
}
