package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store/bolt"
)

// token is a secret that must not be in the store.
const token = "correct-horse-battery"

const (
	directRun = "exe-crash" // id of the execution of a direct run
	message   = "msg-crash" // id of the message of a turn
	thread    = "thr-crash"
)

// kind is how a child works.
type kind string

const (
	directly kind = "run"  // a direct run of the workflow
	asTurn   kind = "turn" // the workflow answers a message
	talking  kind = "talk" // a model answers three messages
)

// orders tell a child what to do, in its environment.
type orders struct {
	Peer  string               `json:"peer"`
	Store string               `json:"store"`
	Kind  kind                 `json:"kind"`
	OnUn  connection.OnUnknown `json:"onUnknown"`
	Kill  int64                `json:"kill"` // at which point
}

const ordersVariable = "BRIDLE_CRASH_CHILD"

// line types that a child prints.
type said struct {
	Killed string  `json:"killed,omitempty"` // where
	Told   string  `json:"told,omitempty"`   // path of a step about which there was a remark
	Result *result `json:"result,omitempty"`
}

// result is what a run came to.
type result struct {
	Out     json.RawMessage `json:"out,omitempty"`
	Err     string          `json:"err,omitempty"`
	Unknown bool            `json:"unknown,omitempty"` // it is outcome_unknown
	Points  int64           `json:"points"`
}

// child runs the workflow once, in a process of its own.
func child(raw string) {
	var o orders
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	f := &fuse{at: o.Kill}
	out, err := o.run(ctx, f)
	r := &result{Out: out, Points: f.points.Load(), Unknown: errors.Is(err, fault.OutcomeUnknown)}
	if err != nil {
		r.Err = err.Error()
	}
	say(said{Result: r})
}

func say(s said) { fmt.Println(string(encode(s))) }

func (o *orders) run(ctx context.Context, f *fuse) (json.RawMessage, error) {
	db, err := bolt.Open(o.Store, nil)
	if err != nil {
		return nil, err
	}
	peer := newClient(o.Peer, f)
	h, err := harness.New(harness.Config{Name: "crash", Store: &fusedStore{db, f}, Model: &parrot{peer}, Graph: o.graph(),
		Tools: []steps.Tool{nested()}, Secrets: secrets.Map{"token": secrets.NewValue(token)}, Approver: gates.ApproverFunc(approve),
		Connections: connection.Set{on: {Provider: peer, OnUnknown: o.OnUn},
			booths: {Provider: &yard{peer}, Pool: &connection.Pool{Max: 2}},
			rooms:  {Provider: &shed{peer, filepath.Dir(o.Store)}, Pool: &connection.Pool{Max: 2}}}})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	var telling sync.WaitGroup
	telling.Go(func() { tell(ctx, h) })
	out, err := o.answer(ctx, h)
	err = errors.Join(err, h.Close(ctx))
	telling.Wait()
	return out, errors.Join(err, db.Close())
}

// approve says yes to what is asked for the first time, and never to a doubt.
func approve(_ context.Context, a *gates.Approval) (gates.Decision, error) {
	if a.Doubt {
		return gates.Decision{Verdict: gates.Deny}, nil
	}
	return gates.Decision{Verdict: gates.Allow}, nil
}

// tell prints which steps there were remarks about.
func tell(ctx context.Context, h *harness.AgentHarness) {
	for ev, err := range h.Events(ctx, "") {
		if err == nil && (ev.Type == event.Warning || ev.Type == event.ApprovalRequested) {
			say(said{Told: ev.Step})
		}
	}
}

// graph is what answers messages; nil is a model.
func (o *orders) graph() steps.Step {
	if o.Kind == talking {
		return nil
	}
	return workflow()
}

func (o *orders) answer(ctx context.Context, h *harness.AgentHarness) (json.RawMessage, error) {
	switch o.Kind {
	case directly:
		return h.Run(ctx, workflow(), nil, &steps.RunOptions{Execution: directRun})
	case talking:
		return talk(ctx, h)
	}
	turn, err := h.Execute(ctx, "begin", &harness.ExecuteOptions{Message: message, Thread: thread})
	if err != nil {
		return nil, err
	}
	r, err := turn.Wait(ctx)
	if err != nil {
		return nil, err
	}
	texts := []string{r.Text}
	for _, it := range r.Items {
		texts = append(texts, string(it.Type)+" "+it.CallID+" "+it.Name+" "+it.Text())
	}
	return encode(texts), nil
}

// isChild runs the child if this process is one.
func isChild() bool {
	raw, ok := os.LookupEnv(ordersVariable)
	if ok {
		child(raw)
	}
	return ok
}
