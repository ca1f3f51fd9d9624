package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
)

// secret is what the sender of webhooks and the program share.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// startTime is how long after the start of the program morning comes: enough for a
// schedule to be followed by then also where the machine is busy.
const startTime = 3 * time.Second

// story is what happens to the program: morning comes, a deployment fails, it is
// stopped, and it is started again.
func story(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "oncall")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	soon := time.Now().UTC().Add(startTime)
	morning := fmt.Sprintf("%d %d %d * * *", soon.Second(), soon.Minute(), soon.Hour())

	fmt.Println("The program starts. Morning comes, and while it pages somebody, a deployment fails.")
	first := newLife(dir, morning)
	first.on(event.CallStarted, func() error {
		return errors.Join(first.post(ctx, "msg_1", `{"type":"deploy.failed","data":{"service":"checkout","build":4711}}`), terminate())
	})
	if err := first.run(ctx); err != nil {
		return err
	}

	fmt.Printf("\nIt was told to stop. What it had begun is done. The sender of the webhook got %q,\n"+
		"and what was accepted waits in the store. The program starts again.\n", first.told)
	second := newLife(dir, morning)
	second.on(event.InboxDone, terminate)
	if err := second.run(ctx); err != nil {
		return err
	}
	pages, err := os.ReadFile(filepath.Join(dir, "pages.txt"))
	fmt.Printf("\nPaged:\n%s", pages)
	return err
}

// life is the program from a start to a stop, with somebody who watches it.
type life struct {
	oncall
	when   event.Type
	do     func() error
	once   sync.Once
	acted  sync.WaitGroup
	failed error  // what do came to
	told   string // what the sender of the webhook was told
}

func newLife(dir, morning string) *life {
	l := &life{oncall: oncall{dir: dir, secret: secret, morning: morning, model: script()}}
	l.tell = l.watch
	return l
}

// on has something done when something happens for the first time.
func (l *life) on(when event.Type, do func() error) { l.when, l.do = when, do }

// run runs the program until it is told to stop by a signal.
func (l *life) run(ctx context.Context) (err error) {
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = l.oncall.run(ctx)
	l.acted.Wait()
	return errors.Join(err, l.failed)
}

// watch prints what happens, and acts when it is time.
func (l *life) watch(ev event.Event) {
	switch ev.Type {
	case event.InboxAccepted, event.InboxDone, event.InboxDead, event.CallCompleted, event.TurnCompleted, event.TurnAborted, event.Warning:
		fmt.Println(ev)
	}
	if ev.Type == l.when {
		l.once.Do(func() { l.acted.Go(func() { l.failed = l.do() }) })
	}
}

// terminate tells the program to stop, as whoever runs it would.
func terminate() error { return syscall.Kill(os.Getpid(), syscall.SIGTERM) }

// post sends a webhook as its sender would.
func (l *life) post(ctx context.Context, id, body string) error {
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	now := time.Now()
	signature, err := signer.Sign(id, now, []byte(body))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.listener.Addr().String()+"/hooks/deploys", bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", signature)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	l.told = res.Status
	return res.Body.Close()
}

// script is a model that pages what it was told last, and says so.
func script() model.Model {
	page := scripted.Respond(func(req *model.Request) scripted.Round {
		return scripted.CallTool("pager_page", map[string]any{"text": "about: " + req.Items[len(req.Items)-1].Text()})
	})
	return scripted.New(page, scripted.Say("Somebody knows."), page, scripted.Say("Somebody knows."))
}
