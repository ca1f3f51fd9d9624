package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// listening keeps the SDK's subscription alive over stdio, where it is one
// request among others: when it ends, it is asked for again under a new id.
type listening struct {
	subscription
	over *signal // the subscription ended

	mu      sync.Mutex
	params  json.RawMessage // of the SDK's request, nil before it
	current any             // key of the id that is subscribed, nil for none
	opened  int             // how often it was asked for
	pause   time.Duration   // before the next time
}

func newListening() *listening { return &listening{over: newSignal(), pause: standingPause} }

// begin takes over the SDK's own request.
func (l *listening) begin(req *jsonrpc.Request) {
	l.ask(req.Params)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.params, l.current, l.opened = req.Params, idKey(req.ID), 1
}

// again is the request to send next.
func (l *listening) again() (*jsonrpc.Request, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	id, err := jsonrpc.MakeID(idPrefix + "listen-" + strconv.Itoa(l.opened))
	if err != nil {
		return nil, err
	}
	l.current = idKey(id)
	return &jsonrpc.Request{ID: id, Method: methodListen, Params: l.params}, nil
}

// backOff returns the wait before the next request, which doubles until the
// server acknowledges one.
func (l *listening) backOff() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause := l.pause
	l.pause = min(2*pause, standingPauseMax)
	return pause
}

// heard looks at a message from the server. It reports whether the message is
// the end of the subscription, which is not for the SDK, and whether changes
// may have been missed before it.
func (l *listening) heard(msg jsonrpc.Message) (end, missed bool) {
	switch m := msg.(type) {
	case *jsonrpc.Response:
		return l.ends(m), false
	case *jsonrpc.Request:
		switch m.Method {
		case methodAcknowledged:
			changed := l.acknowledged(m.Params)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.pause = standingPause
			return false, changed || l.opened > 1
		case methodCancelled:
			return l.cancelled(m.Params), false
		}
	}
	return false, false
}

func (l *listening) ends(r *jsonrpc.Response) bool {
	l.mu.Lock()
	mine := l.current != nil && l.current == idKey(r.ID)
	if mine {
		l.current = nil
	}
	l.mu.Unlock()
	if !mine {
		return false
	}
	if refusal, ok := errors.AsType[*jsonrpc.Error](r.Error); ok {
		l.refused(fmt.Sprintf("%s (%d)", plain(refusal.Message), refusal.Code))
		return true
	}
	l.over.raise()
	return true
}

// cancelled reports whether the server took the subscription down.
func (l *listening) cancelled(params json.RawMessage) bool {
	var p struct {
		RequestID any `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return false
	}
	id, err := jsonrpc.MakeID(p.RequestID)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil || l.current != idKey(id) {
		return false
	}
	l.current = nil
	l.over.raise()
	return true
}

// keepListening asks for the subscription again whenever it ended.
func (c *lineConn) keepListening() {
	for {
		select {
		case <-c.listening.over.c:
		case <-c.closed:
			return
		case <-c.ended:
			return
		}
		timer := time.NewTimer(c.listening.backOff())
		select {
		case <-timer.C:
		case <-c.closed:
			timer.Stop()
			return
		case <-c.ended:
			timer.Stop()
			return
		}
		req, err := c.listening.again()
		if err != nil {
			return // cannot happen: strings are ids
		}
		// The write ends with the connection.
		if err := c.write(context.Background(), nil, req); err != nil {
			return
		}
	}
}
