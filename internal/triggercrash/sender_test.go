package triggercrash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bridle-dev/bridle/provider"
)

// sender posts the events of all lines, each of a line once the one before it was
// accepted, and each until it is.
type sender struct {
	url    string
	hook   *standardwebhooks.Webhook
	client *http.Client

	posts   atomic.Int64 // how often something was sent
	refused atomic.Int64 // how often it was not accepted
}

const (
	retryPause  = 20 * time.Millisecond
	postTimeout = 5 * time.Second
	sentTwice   = 10 // every so-manieth event is sent once more after it was accepted
)

func newSender(url string) (*sender, error) {
	hook, err := standardwebhooks.NewWebhook(secret)
	return &sender{url: url + route, hook: hook, client: &http.Client{Timeout: postTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}, err
}

// send sends everything, or stops when ctx ends.
func (s *sender) send(ctx context.Context, lines, each int) error {
	var all sync.WaitGroup
	errs := make(chan error, lines)
	for i := range lines {
		all.Go(func() { errs <- s.line(ctx, lineName(i), each) })
	}
	all.Wait()
	s.client.CloseIdleConnections()
	for range lines {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) line(ctx context.Context, line string, each int) error {
	for n := range each {
		times := 1
		if n%sentTwice == 0 {
			times = 2
		}
		for range times {
			if err := s.until(ctx, order{line, n}); err != nil {
				return err
			}
		}
	}
	return nil
}

// eventID is what a sender calls an event, each time it sends it.
func eventID(o order) provider.EventID { return provider.EventID(fmt.Sprintf("%s-%d", o.Line, o.N)) }

// until posts an event until it is accepted.
func (s *sender) until(ctx context.Context, o order) error {
	for ctx.Err() == nil {
		s.posts.Add(1)
		if s.post(ctx, o) {
			return nil
		}
		s.refused.Add(1)
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("event %s was not accepted: %w", eventID(o), context.Cause(ctx))
}

func (s *sender) post(ctx context.Context, o order) bool {
	data, err := json.Marshal(o)
	if err != nil {
		return false
	}
	body, now := fmt.Appendf(nil, `{"type":%q,"data":%s}`, placed, data), time.Now()
	signature, err := s.hook.Sign(string(eventID(o)), now, body)
	if err != nil {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("webhook-id", string(eventID(o)))
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", signature)
	res, err := s.client.Do(req)
	if err != nil {
		return false // who listened is dead
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode/100 == 2
}
