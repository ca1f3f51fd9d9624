package triggercrash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store/bolt"
	"github.com/bridle-dev/bridle/triggers"
)

const (
	ordersVariable = "BRIDLE_TRIGGERCRASH_CHILD"
	secret         = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	route          = "/hooks/orders"
	placed         = "order.placed"
	serving        = "serving" // the line that a child prints when it is up
	listenerFile   = 3         // of the socket on which all children listen
	drainLimit     = 60 * time.Second
)

// orders tell a child where things are.
type orders struct {
	Server string `json:"server"` // that acts
	Store  string `json:"store"`
}

// order is the payload of an event: the nth of its line.
type order struct {
	Line string `json:"line"`
	N    int    `json:"n"`
}

// isChild runs the child if this process is one.
func isChild() bool {
	raw, ok := os.LookupEnv(ordersVariable)
	if !ok {
		return false
	}
	var o orders
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		panic(err)
	}
	if err := o.run(context.Background()); err != nil {
		fmt.Println("failed:", err)
	}
	return true
}

// run answers webhooks until it is killed, or until its standard input ends and
// nothing is left to do.
func (o *orders) run(ctx context.Context) error {
	db, err := bolt.Open(o.Store, nil)
	if err != nil {
		return err
	}
	hooks := triggers.NewWebhookReceiver(nil)
	h, err := harness.New(harness.Config{Name: "triggercrash", Store: db, Graph: fulfil(), Profiles: []*provider.Profile{profile()},
		Connections: connection.Set{
			"orders": {Provider: hooks.Source(route, triggers.StandardWebhooks(secret), triggers.Declare[order](placed))},
			"desk":   {Provider: mcp.HTTP(o.Server, nil)},
		},
		Triggers: []triggers.Trigger{{
			ID: "fulfil", Connection: "orders", Event: placed,
			Thread: triggers.Of(func(o order) provider.ThreadID { return provider.ThreadID(o.Line) }),
			// Whoever kills a process uses up an attempt of all that it was at.
			Attempts: 1_000,
		}},
	})
	if err != nil {
		return err
	}
	if err := h.Start(ctx); err != nil {
		return err
	}
	if err := serve(hooks); err != nil {
		return err
	}
	fmt.Println(serving)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent wants no more
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	return errors.Join(untilDone(ctx, h), h.Drain(ctx), db.Close())
}

// serve answers on the socket that was handed down.
func serve(hooks http.Handler) error {
	l, err := net.FileListener(os.NewFile(listenerFile, "webhooks"))
	if err != nil {
		return err
	}
	go func() { _ = (&http.Server{Handler: hooks, ReadTimeout: 10 * time.Second}).Serve(l) }() // until the process ends
	return nil
}

// untilDone waits until no event waits or runs.
func untilDone(ctx context.Context, h *harness.AgentHarness) error {
	left := func() int {
		s := h.Status().Triggers[0]
		return s.Pending + s.Running
	}
	for tick := time.NewTicker(10 * time.Millisecond); left() > 0; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d events are left", left())
		}
	}
	return nil
}

// fulfil is the graph of each turn: one effect, about the event.
func fulfil() steps.Step {
	return steps.Func("fulfil", func(c steps.Context, _ any) (json.RawMessage, error) {
		ev, ok := c.Trigger()
		if !ok {
			return nil, errors.New("no event started this")
		}
		o, err := provider.Decode[order](ev)
		if err != nil {
			return nil, err
		}
		return steps.Do(c, steps.Call{ID: "ship", Connection: "desk", Op: opShip, Args: o})
	})
}
