package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/bridle-dev/bridle/provider"
)

// exchange is one request as the wire sees it. The SDK decodes results into
// Go values, which loses large integers, unknown result types and the order of
// progress reports; the exchange keeps the server's own bytes beside it, and
// remembers whether any byte of the request may have left.
type exchange struct {
	serial uint64        // unique within the connection
	op     string        // the tool, "" for what is no call; set before it is written
	token  string        // progress token
	wake   chan struct{} // signals reports; capacity 1
	over   chan struct{} // closed once there is an answer or a verdict
	id     jsonrpc.ID    // not valid until the request is written; guarded by the tap
	strays sighting

	mu      sync.Mutex
	sent    bool                // a byte may have left
	settled bool                // the server has answered
	result  json.RawMessage     // its result
	refusal *jsonrpc.Error      // or its error
	verdict error               // what the transport knows better; wins over all else
	reports []provider.Progress // received, not delivered yet
	alive   func()              // told of every report, nil for nobody
	clocks  []*clock            // limits of its time
	gone    bool                // nobody waits for it any more
	ends    []func(bool)        // to be told of that, and whether it was answered
}

// markSent records that bytes are about to leave, unsend that none did.
func (x *exchange) markSent() { x.setSent(true) }
func (x *exchange) unsend()   { x.setSent(false) }

func (x *exchange) setSent(sent bool) {
	if x == nil {
		return
	}
	x.mu.Lock()
	x.sent = sent
	x.mu.Unlock()
}

// stop ignores answers from now on: they answer that nobody waits any more. It
// reports whether there was none yet.
func (x *exchange) stop() (waited bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	waited = !x.settled
	x.settled = true
	return waited
}

// waits reports whether the server has to answer.
func (x *exchange) waits() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sent && !x.settled && x.verdict == nil
}

// wasSent reports whether a byte may have left.
func (x *exchange) wasSent() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sent
}

// decide sets the verdict, unless there is one or the server has answered.
func (x *exchange) decide(verdict error) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.verdict == nil && !x.settled {
		x.verdict = verdict
		close(x.over)
	}
}

// answer keeps the server's response.
func (x *exchange) answer(r *jsonrpc.Response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.settled {
		return
	}
	x.settled = true
	if x.verdict == nil {
		defer close(x.over)
	}
	if r.Error == nil {
		x.result = r.Result
		return
	}
	if refusal, ok := errors.AsType[*jsonrpc.Error](r.Error); ok {
		x.refusal = refusal
		return
	}
	x.refusal = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: r.Error.Error()}
}

func (x *exchange) report(p provider.Progress) {
	x.mu.Lock()
	if len(x.reports) < maxReports {
		x.reports = append(x.reports, p)
	} else {
		x.reports[maxReports-1] = p
	}
	alive := x.alive
	x.mu.Unlock()
	if alive != nil {
		alive()
	}
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// limit sets the clocks that run for x, and who is told of every report.
func (x *exchange) limit(clocks []*clock, alive func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clocks, x.alive = clocks, alive
}

// maxReports bounds undelivered progress; the newest report replaces the last
// one then, since only the newest is worth showing.
const maxReports = 1000

// take returns the reports that were not delivered yet.
func (x *exchange) take() []provider.Progress {
	x.mu.Lock()
	defer x.mu.Unlock()
	reports := x.reports
	x.reports = nil
	return reports
}

// exchangeKey is the context key under which the SDK carries an exchange from
// a method of its session down to the transport.
type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

func exchangeFrom(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// tap sees every message of one connection in both directions and keeps what
// belongs to an open exchange. It never changes or holds back a message.
type tap struct {
	strays *strays // set before anything is sent
	asker  *asker  // answers questions, nil if nobody can

	mu      sync.Mutex
	next    uint64
	byID    map[any]*exchange
	byToken map[string]*exchange
}

func newTap(asker *asker) *tap {
	return &tap{asker: asker, byID: map[any]*exchange{}, byToken: map[string]*exchange{}}
}

func (t *tap) open() *exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	x := &exchange{
		serial: t.next, token: "p" + strconv.FormatUint(t.next, 10), strays: t.strays.sight(),
		wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
	t.byToken[x.token] = x
	return x
}

func (t *tap) close(x *exchange) {
	defer x.end()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byToken, x.token)
	delete(t.byID, idKey(x.id))
}

// bind ties an exchange to the id its request is about to be written with.
func (t *tap) bind(x *exchange, id jsonrpc.ID) {
	if x == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x.id = id
	t.byID[idKey(id)] = x
}

func (t *tap) find(id jsonrpc.ID) *exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[idKey(id)]
}

// idKey is an id as a key: a string or a number.
func idKey(id jsonrpc.ID) any { return id.Raw() }

// firstOwn is the first id of the requests that do without the SDK, which
// counts its own from one.
const firstOwn = 1 << 30

// ownID makes the id of an exchange.
func (x *exchange) ownID() jsonrpc.ID {
	id, err := jsonrpc.MakeID(float64(firstOwn + x.serial))
	if err != nil {
		panic(err) // cannot happen: numbers are ids
	}
	return id
}

// isOwn reports whether an id is not the SDK's.
func isOwn(id jsonrpc.ID) bool {
	n, ok := id.Raw().(int64)
	return ok && n >= firstOwn
}

// see looks at a message from the server.
func (t *tap) see(msg jsonrpc.Message) {
	switch m := msg.(type) {
	case *jsonrpc.Response:
		if x := t.find(m.ID); x != nil {
			x.answer(m)
		}
	case *jsonrpc.Request:
		if m.Method == methodProgress {
			t.progress(m.Params)
		}
	}
}

func (t *tap) progress(params json.RawMessage) {
	var p struct {
		Token    any     `json:"progressToken"`
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	token, _ := p.Token.(string)
	t.mu.Lock()
	x := t.byToken[token]
	t.mu.Unlock()
	if x != nil {
		x.report(provider.Progress{Done: p.Progress, Total: p.Total, Message: p.Message})
	}
}
