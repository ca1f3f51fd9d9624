package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.etcd.io/bbolt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store/bolt"
	"github.com/bridle-dev/bridle/triggers"
)

const (
	webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	webhookBody   = `{"type":"deploy.failed","timestamp":"2026-09-21T14:13:20Z","data":{"service":"checkout","build":4711,"log":"https://ci.example.com/builds/4711","text":"the tests of the payment page time out"}}`
	webhookRounds = 32
)

func webhookFigures() []figure {
	return []figure{
		{
			name: "webhook/insert", unit: "×", floor: true, target: 0.9,
			compare: func(baseline, subject float64) float64 { return baseline / subject },
			about:   "webhooks of 64 senders verified and stored durably in the inbox, against a bare handler that verifies and commits in groups",
			open:    openWebhookInsert,
		},
		{
			name: "webhook/verify", unit: "×", compare: ratio, aim: 2,
			about: "a Standard Webhooks delivery of 200 bytes verified and read, against HMAC-SHA256 of what is signed",
			open:  openWebhookVerify,
		},
	}
}

// openWebhookInsert has both sides serve over TCP and write to files in one
// directory. The senders sign, and are the same for both.
func openWebhookInsert(ctx context.Context, p plan) (*rig, error) {
	dir, err := os.MkdirTemp("", "bench-webhook")
	if err != nil {
		return nil, err
	}
	bare, stopBare, err := bareHook(filepath.Join(dir, "bare.db"))
	if err != nil {
		return nil, err
	}
	ours, stopOurs, err := inboxHook(ctx, filepath.Join(dir, "store.db"))
	if err != nil {
		return nil, err
	}
	senders := p.many(64)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	baseline, endBare, err := sending(client, bare)
	if err != nil {
		return nil, err
	}
	subject, endOurs, err := sending(client, ours)
	if err != nil {
		return nil, err
	}
	return &rig{
		baseline: steady(senders, p.many(webhookRounds), baseline),
		subject:  steady(senders, p.many(webhookRounds), subject),
		close: func() {
			client.CloseIdleConnections()
			endBare()
			endOurs()
			stopBare()
			stopOurs()
			_ = os.RemoveAll(dir)
		},
	}, nil
}

// sending serves a handler and returns what one sender does.
func sending(client *http.Client, h http.Handler) (post func(context.Context) error, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	hook, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		return nil, nil, err
	}
	srv := &http.Server{Handler: h}
	var served sync.WaitGroup
	served.Go(func() { _ = srv.Serve(l) })
	url := "http://" + l.Addr().String() + "/hook"
	var n atomic.Int64
	post = func(ctx context.Context) error {
		id, at := "msg_"+strconv.FormatInt(n.Add(1), 10), time.Now()
		header, err := signedHeader(hook, id, at, webhookBody)
		if err != nil {
			return err
		}
		return postHook(ctx, client, url, header)
	}
	return post, func() { _ = srv.Close(); served.Wait() }, nil
}

func signedHeader(hook *standardwebhooks.Webhook, id string, at time.Time, body string) (http.Header, error) {
	signature, err := hook.Sign(id, at, []byte(body))
	return http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)},
		"Webhook-Signature": {signature}}, err
}

func postHook(ctx context.Context, client *http.Client, url string, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(webhookBody))
	if err != nil {
		return err
	}
	req.Header = header
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		return fmt.Errorf("answered %s: %s", res.Status, text)
	}
	return nil
}

// bareHook verifies with the same library, and commits id and body in groups.
func bareHook(file string) (http.Handler, func(), error) {
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, nil, err
	}
	hook, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		return nil, nil, err
	}
	group := &bareGroup{db: db}
	h := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = hook.Verify(body, r.Header)
		}
		if err == nil {
			err = group.update(func(tx *bbolt.Tx) error { return putHook(tx, r.Header.Get("webhook-id"), body) })
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	return http.HandlerFunc(h), func() { _ = db.Close() }, nil
}

func putHook(tx *bbolt.Tx, id string, body []byte) error {
	b, err := tx.CreateBucketIfNotExists([]byte("hooks"))
	if err != nil {
		return err
	}
	return b.Put([]byte(id), body)
}

type deployFailed struct {
	Service string `json:"service"`
	Build   int    `json:"build"`
}

// inboxHook is a receiver whose source an inbox listens to. The first turn of
// the inbox goes on until the end, so that nothing but storing is measured.
func inboxHook(ctx context.Context, file string) (http.Handler, func(), error) {
	s, err := bolt.Open(file, nil)
	if err != nil {
		return nil, nil, err
	}
	hooks := triggers.NewWebhookReceiver(nil)
	source := hooks.Source("/hook", triggers.StandardWebhooks(webhookSecret), triggers.Declare[deployFailed]("deploy.failed"))
	conns, err := source.Connect(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	listening, over := make(chan struct{}, 1), make(chan struct{})
	inbox, err := triggers.OpenInbox(ctx, triggers.InboxConfig{
		Store:    s,
		Triggers: []triggers.Trigger{{ID: "failed", Connection: "deploys", Event: "deploy.failed", Input: triggers.Say("A deploy failed.")}},
		Listen: func(ctx context.Context, t *triggers.Trigger, after triggers.Cursor) (provider.Subscription, error) {
			sub, err := conns[0].(provider.Listener).Listen(ctx, &provider.ListenRequest{Event: t.Event, After: after})
			listening <- struct{}{}
			return sub, err
		},
		Deliver: func(context.Context, *triggers.Delivery) error { <-over; return fault.New(fault.Closed, "measured") },
		Limits:  triggers.InboxLimits{Pending: 1 << 30},
	})
	if err != nil {
		return nil, nil, err
	}
	if err := inbox.Start(ctx); err != nil {
		return nil, nil, err
	}
	<-listening
	return hooks, func() {
		close(over)
		_ = inbox.Stop(ctx)
		_, _ = conns[0].Release(ctx), s.Close()
	}, nil
}

func openWebhookVerify(context.Context, plan) (*rig, error) {
	hook, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	header, err := signedHeader(hook, "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", now, webhookBody)
	if err != nil {
		return nil, err
	}
	request := &triggers.WebhookRequest{Header: header, Body: []byte(webhookBody), Now: now}
	v := triggers.StandardWebhooks(webhookSecret)
	bare, err := bareVerify(request)
	if err != nil {
		return nil, err
	}
	return &rig{
		baseline: timed(1, bare),
		subject: timed(1, func(context.Context) error {
			_, err := v.Verify(request)
			return err
		}),
		close: func() {},
	}, nil
}

// bareVerify is HMAC and a comparison: nothing is checked or read.
func bareVerify(r *triggers.WebhookRequest) (func(context.Context) error, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(webhookSecret, "whsec_"))
	if err != nil {
		return nil, err
	}
	want, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Header.Get("webhook-signature"), "v1,"))
	if err != nil {
		return nil, err
	}
	signed := bytes.Join([][]byte{[]byte(r.Header.Get("webhook-id")), []byte(r.Header.Get("webhook-timestamp")), r.Body}, []byte("."))
	return func(context.Context) error {
		mac := hmac.New(sha256.New, key)
		mac.Write(signed)
		if !hmac.Equal(mac.Sum(nil), want) {
			return errors.New("the signature differs")
		}
		return nil
	}, nil
}
