// Oncall is an agent that starts by itself: in the morning, by a cron schedule, and
// when a deployment failed, by a signed webhook. Its turns page somebody through an
// MCP server, which is this program serving itself.
//
//	go run ./examples/oncall
//
// It needs no key and no network, and shows that stopping and starting it loses
// nothing: it is told to stop just after it accepted a webhook, and before it did
// anything about it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
	"github.com/bridle-dev/bridle/triggers"
)

func main() {
	log.SetFlags(0)
	run := story
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		run = func(ctx context.Context) error { return servePager(ctx, os.Args[2]) }
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// DeployFailed is the payload of the webhook.
type DeployFailed struct {
	Service string `json:"service"`
	Build   int    `json:"build"`
}

// drainTime is how long turns may take to end once the program is told to stop:
// a little less than whoever stops it waits before it kills.
const drainTime = 10 * time.Second

// oncall is the program as it would be deployed.
type oncall struct {
	dir      string            // of its store
	listener net.Listener      // for webhooks
	secret   string            // with which they are signed
	morning  string            // when it writes its summary: a cron schedule with seconds, in UTC
	model    model.Model       // that answers
	tell     func(event.Event) // is told what happens
}

// run works until ctx ends, and then ends what it has begun.
func (o *oncall) run(ctx context.Context) (err error) {
	db, err := bolt.Open(filepath.Join(o.dir, "oncall.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	hooks := triggers.NewWebhookReceiver(nil)
	c, err := o.config(db, hooks)
	if err != nil {
		return err
	}
	h, err := harness.New(c)
	if err != nil {
		return err
	}
	told := o.listen(context.WithoutCancel(ctx), h)
	defer func() { <-told }()
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()
	if err := h.Start(ctx); err != nil {
		return err
	}
	stop := o.serve(hooks, h)
	defer stop()
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	return h.Drain(end)
}

// config is the agent: what it is connected to, and what has it start a turn.
func (o *oncall) config(db store.Store, hooks *triggers.WebhookReceiver) (harness.Config, error) {
	self, err := os.Executable()
	together := func(triggers.Event) (provider.ThreadID, error) { return "oncall", nil }
	return harness.Config{
		Name: "oncall", Store: db, Model: o.model, Profiles: []*harness.Profile{paging()},
		Instructions: "You are on call. Page somebody about what you are told.",
		Connections: connection.Set{
			"morning": {Provider: triggers.Cron(o.morning, &triggers.CronOptions{Location: time.UTC, Seconds: true})},
			"deploys": {Provider: hooks.Source("/hooks/deploys", triggers.StandardWebhooks(o.secret), triggers.Declare[DeployFailed]("deploy.failed"))},
			"pager":   {Provider: mcp.Command(self, "serve", o.dir), Required: true},
		},
		Triggers: []triggers.Trigger{
			{ID: "summary", Connection: "morning", Event: triggers.Tick, Thread: together, Input: triggers.Say("Good morning.")},
			{ID: "failed", Connection: "deploys", Event: "deploy.failed", Thread: together,
				Input: triggers.Of(func(d DeployFailed) string { return fmt.Sprintf("Build %d of %s failed.", d.Build, d.Service) })},
		},
	}, err
}

// listen tells what happens, until the harness is closed; then told is closed.
func (o *oncall) listen(ctx context.Context, h *harness.AgentHarness) (told <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := range h.Events(ctx, "") {
			if err == nil {
				o.tell(ev)
			}
		}
	}()
	return done
}

// serve takes webhooks, and says how the program is.
func (o *oncall) serve(hooks *triggers.WebhookReceiver, h *harness.AgentHarness) (stop func()) {
	mux := http.NewServeMux()
	mux.Handle("/hooks/", hooks)
	mux.Handle("/healthz", h.Health())
	mux.Handle("/readyz", h.Ready())
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(o.listener) // until it is closed
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}
