package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Servers of the earlier era ask with requests of their own, on whatever stream
// is there. They are answered here and never reach the SDK.

// replyFunc sends an answer to a server's request.
type replyFunc func(context.Context, *jsonrpc.Response) error

var (
	errNobodyWaits = errors.New("the call that the question was about is over")
	errWithdrawn   = errors.New("the server withdrew its question")
)

// question is a request of the server that waits for its answer.
type question struct {
	cut   context.CancelCauseFunc
	about []*exchange // what it may be about
}

// answerWith lets the server send requests from now on.
func (a *asker) answerWith(reply replyFunc) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reply = reply
}

// take reports whether msg is a question, which is then answered beside the
// reader of messages. It came on the stream of x, which is nil if that says
// nothing; then any of waiting may have caused it.
func (a *asker) take(msg jsonrpc.Message, x *exchange, waiting func() []*exchange) bool {
	req, ok := msg.(*jsonrpc.Request)
	if a == nil || !ok {
		return false
	}
	if req.Method == methodCancelled {
		a.withdraw(req.Params)
		return false
	}
	if req.Method != methodElicit || !req.IsCall() {
		return false
	}
	about := []*exchange{x}
	if x == nil {
		about = waiting()
	}
	ctx, cut := context.WithCancelCause(a.life)
	reply, known := a.admit(req.ID, &question{cut: cut, about: about})
	if reply == nil {
		cut(nil)
		return known
	}
	a.watch(about, x != nil, cut)
	if !a.spawn(func() { defer cut(nil); a.serve(ctx, req, x, about, reply) }) {
		cut(nil)
	}
	return true
}

// admit takes a request in. A server repeats one on a stream that it was asked
// to resume; it is answered once, and known says so.
func (a *asker) admit(id jsonrpc.ID, q *question) (reply replyFunc, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reply == nil {
		return nil, false
	}
	if _, known := a.requests[idKey(id)]; known {
		return nil, true
	}
	a.requests[idKey(id)] = q
	return a.reply, false
}

// watch withdraws a question once nobody waits for what its answer is good for:
// once the call is over on whose stream it came, or once all calls are over that
// it may be about, one of which was given up.
func (a *asker) watch(about []*exchange, certain bool, cut context.CancelCauseFunc) {
	left := newCountdown(len(about), func() { cut(errNobodyWaits) })
	for _, x := range about {
		x.atEnd(func(answered bool) { left.down(certain || !answered) })
	}
}

// serve answers one request of the server.
func (a *asker) serve(ctx context.Context, req *jsonrpc.Request, x *exchange, about []*exchange, reply replyFunc) {
	defer a.forget(req.ID)
	op := ""
	if x != nil {
		op = x.op
	}
	r := &jsonrpc.Response{ID: req.ID}
	if e, err := readElicitation(op, req.Params); err != nil {
		a.log.Warn("the mcp server asked in a way that nobody can answer", "error", err)
		r.Error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	} else {
		for _, x := range about {
			defer x.hold()()
		}
		if r.Result, err = json.Marshal(a.put(ctx, e)); err != nil {
			r.Result = json.RawMessage(`{"action":"` + actionCancel + `"}`) // cannot happen: it was JSON before
		}
	}
	if a.life.Err() != nil || errors.Is(context.Cause(ctx), errWithdrawn) {
		return // nobody waits for it
	}
	if err := reply(a.life, r); err != nil {
		a.log.Warn("cannot tell the mcp server the answer to its question", "error", err)
	}
}

func (a *asker) forget(id jsonrpc.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.requests, idKey(id))
}

// withdraw ends the question that a server no longer wants answered.
func (a *asker) withdraw(params json.RawMessage) {
	var p struct {
		RequestID any `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	id, err := jsonrpc.MakeID(p.RequestID)
	if err != nil {
		return
	}
	a.mu.Lock()
	q := a.requests[idKey(id)]
	a.mu.Unlock()
	if q != nil {
		q.cut(errWithdrawn)
	}
}
