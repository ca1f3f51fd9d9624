package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

const (
	// maxOpen bounds the questions of one server that wait at the same time. No
	// person would keep apart as many.
	maxOpen = 16
	// askGrace bounds the wait for a host that is asked although the connection
	// has ended, of which its context tells it.
	askGrace = time.Second
)

// askFunc is how a host is asked.
type askFunc = func(context.Context, *provider.Question) (*provider.Answer, error)

// asker puts what one server asks to the host. A nil asker has nobody to ask.
type asker struct {
	host askFunc
	log  *slog.Logger
	life context.Context // of the connection
	cut  context.CancelCauseFunc
	work sync.WaitGroup // goroutines

	mu       sync.Mutex
	open     int               // questions that wait
	reply    replyFunc         // nil unless the server may send requests
	requests map[any]*question // the server's own requests that wait, by id
	ended    bool
}

// newAsker makes the asker of one connection, nil without a host to ask.
func newAsker(host askFunc, log *slog.Logger) *asker {
	if host == nil {
		return nil
	}
	// The connection's own context: its end is that of the connection.
	life, cut := context.WithCancelCause(context.Background())
	return &asker{host: host, log: log, life: life, cut: cut, requests: map[any]*question{}}
}

// capabilities are what a server may ask for.
func (a *asker) capabilities() *sdk.ClientCapabilities {
	if a == nil {
		return &sdk.ClientCapabilities{}
	}
	return &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
		Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{},
	}}
}

// declared are the capabilities as requests of the modern era carry them.
func (a *asker) declared() json.RawMessage {
	if a == nil {
		return json.RawMessage(`{}`)
	}
	return json.RawMessage(`{"elicitation":{"form":{},"url":{}}}`)
}

// end withdraws all questions; wait waits for their goroutines.
func (a *asker) end(why error) {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.cut(why)
}

func (a *asker) wait() {
	if a == nil {
		return
	}
	over := make(chan struct{})
	go func() { a.work.Wait(); close(over) }()
	timer := time.NewTimer(askGrace)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
		a.log.Error("a question is still being asked although its connection has ended; have Ask return when its context does")
	}
}

// enter counts a question in, unless there are too many.
func (a *asker) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || a.open == maxOpen {
		return false
	}
	a.open++
	return true
}

func (a *asker) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
}

// elicitResult is an answer on the wire.
type elicitResult struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
}

// forSDK is the same for the SDK, with numbers as exact as they are.
func (r elicitResult) forSDK() *sdk.ElicitResult {
	out := &sdk.ElicitResult{Action: r.Action}
	if r.Content != nil {
		exact := json.NewDecoder(bytes.NewReader(r.Content))
		exact.UseNumber()
		if exact.Decode(&out.Content) != nil {
			out.Content = nil // cannot happen: it was checked before
		}
	}
	return out
}

// The actions on the wire.
const (
	actionAccept  = "accept"
	actionDecline = "decline"
	actionCancel  = "cancel"
)

// put asks the host and returns what to tell the server: that nobody decided if
// there is no answer, or none that the form allows. It returns when ctx ends,
// whatever the host does.
func (a *asker) put(ctx context.Context, e *elicitation) elicitResult {
	undecided := elicitResult{Action: actionCancel}
	if !a.enter() {
		a.log.Warn("a question of the mcp server was not asked: too many wait already", "most", maxOpen)
		return undecided
	}
	defer a.leave()
	answer := make(chan elicitResult, 1)
	started := a.spawn(func() {
		result, err := a.consult(ctx, e)
		if err != nil {
			a.unanswered(ctx, err)
			result = undecided
		}
		answer <- result
	})
	if !started {
		return undecided
	}
	select {
	case result := <-answer:
		return result
	case <-ctx.Done():
		return undecided
	}
}

// consult calls the host's function.
func (a *asker) consult(ctx context.Context, e *elicitation) (_ elicitResult, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	q := e.question()
	answer, err := a.host(ctx, &q)
	if err != nil {
		return elicitResult{}, err
	}
	return e.result(answer)
}

// unanswered notes why there is no answer, if that is anybody's fault.
func (a *asker) unanswered(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	if !errors.Is(err, fault.ArgsInvalid) {
		level = slog.LevelError
	}
	a.log.Log(ctx, level, "no answer to a question of the mcp server, which is told that nobody decided", "error", err)
}

// spawn runs f, unless the connection has ended.
func (a *asker) spawn(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.work.Go(f)
	return true
}
