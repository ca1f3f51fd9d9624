package crash_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/provider"
)

// Operations of the peer, by what may be relied on.
const (
	opPlain     = "plain"      // nothing is known
	opOnce      = "once"       // a repeated key returns the first outcome
	opPut       = "put"        // may be repeated
	opReconcile = "book"       // a read tells whether it happened
	opGuarded   = "guarded"    // once, and needs an approval
	opEmit      = "emit"       // once, and causes an event
	opBig       = "big"        // once, with a result that is kept apart
	opLong      = "long"       // becomes a task; nothing is known
	opOnceLong  = "long_once"  // becomes a task, and is once
	opRefuse    = "refuse"     // may be repeated, and is always refused
	opRoom      = "arrange"    // in a room that is pure: done again when the room is gone
	readStock   = "stock"      // changes nothing
	readBooked  = "was_booked" // tells whether opReconcile happened under a key
	eventPing   = "ping"
)

func manifest() *provider.Manifest {
	const object = `{"type":"object"}`
	op := func(name string, f provider.Facts) provider.Operation {
		return provider.Operation{Name: name, Args: json.RawMessage(object), Facts: f}
	}
	return &provider.Manifest{
		Operations: []provider.Operation{
			op(opPlain, provider.Facts{Effects: true}),
			op(opOnce, provider.Facts{Effects: true, Once: true}),
			op(opPut, provider.Facts{Effects: true, Idempotent: true}),
			op(opReconcile, provider.Facts{Effects: true, Reconcile: readBooked}),
			op(opGuarded, provider.Facts{Effects: true, Once: true, Guarded: true}),
			op(opEmit, provider.Facts{Effects: true, Once: true}),
			op(opBig, provider.Facts{Effects: true, Once: true}),
			op(opLong, provider.Facts{Effects: true}),
			op(opOnceLong, provider.Facts{Effects: true, Once: true}),
			op(opRefuse, provider.Facts{Effects: true, Idempotent: true}),
		},
		Reads:  []provider.Read{{Name: readStock}, {Name: readBooked, Args: json.RawMessage(object)}},
		Events: []provider.EventType{{Name: eventPing, Args: json.RawMessage(object), Replay: provider.ReplayCursor}},
	}
}

// honoursKeys reports whether the peer returns the first outcome of a key.
func honoursKeys(op string) bool {
	o, _ := manifest().Operation(op)
	return o.Facts.Once
}

// effect is what was done under one key.
type effect struct {
	op, args string
	sent     int // how often it was asked for
	done     int // how often it happened
	value    json.RawMessage
	task     provider.TaskID
}

// peer is what the workflow acts on: a server that outlives the child.
type peer struct {
	listener net.Listener
	serving  sync.WaitGroup
	over     context.Context

	mu      sync.Mutex
	effects map[provider.Key]*effect
	events  map[string][]provider.Event // by topic
	news    chan struct{}               // closed with the next event
	asks    int                         // of the model
	made    int                         // booths
	things  map[string]int              // booths that are there, and how often they were used
	open    int                         // lines that are served
	quiet   *sync.Cond                  // open became 0
	wrong   []string                    // what no client may do
}

// newPeer serves until the test ends.
func newPeer(t *testing.T) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	p := &peer{listener: l, over: over, effects: map[provider.Key]*effect{}, events: map[string][]provider.Event{}, things: map[string]int{}, news: make(chan struct{})}
	p.quiet = sync.NewCond(&p.mu)
	p.serving.Go(p.accept)
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		p.serving.Wait()
	})
	return p
}

func (p *peer) address() string { return p.listener.Addr().String() }

func (p *peer) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.count(1)
		p.serving.Go(func() {
			defer p.count(-1)
			defer conn.Close()
			p.serve(conn)
		})
	}
}

func (p *peer) count(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open += by; p.open == 0 {
		p.quiet.Broadcast()
	}
}

// settle waits until all that a killed client had sent is done. The connections
// of the dead were made before this one, and are accepted in order.
func (p *peer) settle(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(request{Method: "settle"}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.open > 0 {
		p.quiet.Wait()
	}
}

// serve answers one line.
func (p *peer) serve(conn net.Conn) {
	var req request
	if json.NewDecoder(bufio.NewReader(conn)).Decode(&req) != nil {
		return // the client died before it had sent it
	}
	answer := json.NewEncoder(conn)
	switch req.Method {
	case "call":
		_ = answer.Encode(p.call(req)) // whoever asked may be dead
	case "await":
		_ = answer.Encode(p.await(req.Task))
	case "read":
		_ = answer.Encode(p.look(req))
	case "ask":
		p.mu.Lock()
		p.asks++
		p.mu.Unlock()
		_ = answer.Encode(reply{})
	case "provision":
		_ = answer.Encode(p.provision())
	case "release":
		_ = answer.Encode(p.release(req.Thing))
	case "reattach":
		_ = answer.Encode(p.reattach(req.Thing))
	case "listen":
		p.listen(conn, req)
	}
}

// call does what is asked, once under each key where it honours keys.
func (p *peer) call(req request) reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.use(req)
	e := p.effects[req.Key]
	if e == nil {
		e = &effect{op: req.Op, args: string(req.Args)}
		p.effects[req.Key] = e
	}
	e.sent++
	if e.op != req.Op || e.args != string(req.Args) {
		p.wrong = append(p.wrong, fmt.Sprintf("key %s came with %s %s, and then with %s %s", req.Key, e.op, e.args, req.Op, req.Args))
	}
	switch {
	case req.Op == opRefuse:
		return reply{Refused: "never"}
	case honoursKeys(req.Op) && e.done > 0:
	default:
		e.done++
		p.happen(e, req)
	}
	if e.task != "" {
		return reply{Task: e.task}
	}
	return reply{Value: e.value}
}

// happen does something; the caller holds mu.
func (p *peer) happen(e *effect, req request) {
	var args struct {
		N     int    `json:"n"`
		Topic string `json:"topic"`
		Token string `json:"token"`
	}
	if err := json.Unmarshal(req.Args, &args); err != nil {
		p.wrong = append(p.wrong, fmt.Sprintf("%s has no arguments but %s", req.Op, req.Args))
	}
	if strings.Contains(string(req.Args), "token") && args.Token != token {
		p.wrong = append(p.wrong, "a secret was not filled in")
	}
	e.value = encode(map[string]any{"did": req.Op, "n": args.N})
	switch req.Op {
	case opBig:
		e.value = encode(map[string]any{"did": req.Op, "text": strings.Repeat("0123456789", 20_000)})
	case opLong, opOnceLong:
		e.task = provider.TaskID("task of " + string(req.Key))
	case opEmit:
		at := strconv.Itoa(len(p.events[args.Topic]) + 1)
		p.events[args.Topic] = append(p.events[args.Topic], provider.Event{ID: provider.EventID(args.Topic + at), Type: eventPing,
			Payload: encode(map[string]string{"topic": args.Topic, "at": at}), Time: time.Unix(1, 0).UTC(), Cursor: provider.Cursor(at)})
		close(p.news)
		p.news = make(chan struct{})
	}
}

// await answers for a task.
func (p *peer) await(id provider.TaskID) reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.effects {
		if e.task == id {
			return reply{Value: e.value}
		}
	}
	p.wrong = append(p.wrong, "task "+string(id)+" was never begun")
	return reply{Refused: "there is no such task"}
}

func (p *peer) look(req request) reply {
	if req.Op == readStock {
		return reply{Value: json.RawMessage(`{"stock":7}`)}
	}
	var args struct {
		Key provider.Key `json:"key"`
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if json.Unmarshal(req.Args, &args) == nil {
		if e := p.effects[args.Key]; e != nil && e.done > 0 {
			return reply{Value: e.value}
		}
	}
	return reply{Value: json.RawMessage("null")}
}

// listen sends the events of a topic after a position, until the client is gone.
func (p *peer) listen(conn net.Conn, req request) {
	var args struct {
		Topic string `json:"topic"`
	}
	if err := json.Unmarshal(req.Args, &args); err != nil {
		return
	}
	gone, cancel := context.WithCancel(p.over)
	defer cancel()
	p.serving.Go(func() {
		_, _ = conn.Read(make([]byte, 1))
		cancel()
	})
	stop := context.AfterFunc(gone, func() { _ = conn.Close() })
	defer stop()
	next := p.begin(args.Topic, req.After)
	out := json.NewEncoder(conn)
	err := out.Encode(reply{Cursor: provider.Cursor(strconv.Itoa(next))})
	for ; err == nil; next++ {
		ev := p.event(gone, args.Topic, next)
		if ev == nil {
			return
		}
		err = out.Encode(reply{Event: ev})
	}
}

// begin is how many events come before a position.
func (p *peer) begin(topic string, after provider.Cursor) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := strconv.Atoi(string(after))
	if err != nil {
		return len(p.events[topic])
	}
	return n
}

// event returns an event when it has happened, nil if the context ends before.
func (p *peer) event(ctx context.Context, topic string, at int) *provider.Event {
	for {
		p.mu.Lock()
		all, news := p.events[topic], p.news
		p.mu.Unlock()
		if at < len(all) {
			return &all[at]
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil
		}
	}
}

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
