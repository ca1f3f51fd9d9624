package main

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// inboxPath is where Admin has an event.
func inboxPath(id string) string { return "/inbox/" + url.PathEscape(id) }

func (s *socket) message(ctx context.Context, id string) (*message, error) {
	m := new(message)
	return m, s.ask(ctx, http.MethodGet, inboxPath(id), nil, m)
}

func (s *socket) messages(ctx context.Context, f triggers.InboxFilter) iter.Seq2[*message, error] {
	return func(yield func(*message, error) bool) {
		q := url.Values{"limit": {"1000"}, "state": {string(f.State)}, "trigger": {string(f.Trigger)}, "thread": {string(f.Thread)}}
		for after := f.After; ; {
			var page struct {
				Messages []*message
				Next     uint64
			}
			q.Set("after", strconv.FormatUint(after, 10))
			if err := s.ask(ctx, http.MethodGet, "/inbox?"+q.Encode(), nil, &page); err != nil {
				yield(nil, err)
				return
			}
			for _, m := range page.Messages {
				if !yield(m, nil) {
					return
				}
			}
			if after = page.Next; after == 0 {
				return
			}
		}
	}
}

// noInbox is a store that says what is missing in it instead of beginning it.
type noInbox struct{ store.Store }

// Update implements store.Store. It is only ever called to begin an inbox.
func (noInbox) Update(context.Context, func(store.Tx) error) error {
	return fail(exitUnreachable, "no_inbox", "the store has no inbox").hint("A harness of this version makes one in its Config.Store.")
}

// inbox opens the inbox of a file to be read.
func (f *file) inbox(ctx context.Context) (*triggers.Inbox, error) {
	return triggers.OpenInbox(ctx, triggers.InboxConfig{Store: noInbox{f.store},
		Listen: func(context.Context, *triggers.Trigger, triggers.Cursor) (provider.Subscription, error) {
			return nil, fault.New(fault.Closed, "nobody listens")
		},
		Deliver: func(context.Context, *triggers.Delivery) error { return fault.New(fault.Closed, "nothing runs") }})
}

func (f *file) message(ctx context.Context, id string) (*message, error) {
	inbox, err := f.inbox(ctx)
	if err != nil {
		return nil, err
	}
	m, err := inbox.Message(ctx, id)
	if err != nil {
		return nil, err
	}
	return &message{*m, len(m.Event.Payload)}, nil
}

func (f *file) messages(ctx context.Context, filter triggers.InboxFilter) iter.Seq2[*message, error] {
	return func(yield func(*message, error) bool) {
		inbox, err := f.inbox(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for m, err := range inbox.List(ctx, filter) {
			if err != nil {
				yield(nil, err)
				return
			}
			out := &message{*m, len(m.Event.Payload)}
			out.Event.Payload = nil
			if !yield(out, nil) {
				return
			}
		}
	}
}
