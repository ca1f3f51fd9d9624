package triggers

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// closeLimit bounds how long a subscription may take to close: what a peer that
// answers needs, several times over.
const closeLimit = 5 * time.Second

// pump listens to a stream until ctx ends. What is not stored is asked for again:
// a connection that is down, and a store that fails, cost a pause and no event.
func (i *Inbox) pump(ctx context.Context, s *stream) {
	over := false
	defer func() {
		if !over { // code of the provider ended this goroutine, as testing's FailNow does
			i.work.Go(func() { i.pump(ctx, s) })
		}
	}()
	if s.listening {
		i.retreat(ctx, s, vanished("the provider of "+string(s.connection)))
	}
	for ctx.Err() == nil {
		lost := s.lost
		s.listening = true
		err := i.listen(ctx, s)
		s.listening = false
		if lost || !s.lost { // otherwise it begins anew at once
			i.retreat(ctx, s, err)
		}
	}
	i.silent(s)
	over = true
}

// retreat waits before a stream is listened to again.
func (i *Inbox) retreat(ctx context.Context, s *stream, err error) {
	if ctx.Err() != nil {
		return
	}
	s.failures++
	pause := i.pause(s.failures)
	if err != nil && vain(err) {
		pause = i.limits.MaxPause
		s.claim.waive() // or one trigger with a mistake would hold up the others
	}
	i.down(s, err)
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

// vain reports whether listening again promises nothing, so that there is no
// hurry.
func vain(err error) bool {
	switch fault.CodeOf(err) {
	case fault.OpUnknown, fault.ArgsInvalid, fault.SteeringDenied:
		return true
	}
	return misconfigured(err, false)
}

// listen opens one subscription and stores what it brings. Where the stored position
// says nothing to the source, the stream begins anew, after a gap.
func (i *Inbox) listen(ctx context.Context, s *stream) (err error) {
	after := s.position
	if s.lost {
		after = ""
	}
	sub, err := i.subscribe(ctx, s, after)
	if err != nil {
		s.lost = s.lost || refuses(err, after)
		return err
	}
	end := sync.OnceFunc(func() { i.unsubscribe(ctx, s, sub) })
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		end()
	})
	defer func() {
		if !stop() {
			<-cut
		}
		end()
	}()
	defer contained("the provider of "+string(s.connection), &err)
	if !s.known || s.lost {
		// From here on nothing is missed, also if the process dies now.
		if err := i.accept(ctx, []arrival{{stream: s, cursor: sub.Cursor(), anew: true, gap: s.lost}}); err != nil {
			return err
		}
	}
	moved := false
	i.up(s)
	for batch, err := range batches(sub) {
		if err != nil {
			s.lost = !moved && refuses(err, after)
			return err
		}
		// Not before it was asked for, which is how the source learns that the one
		// before it is stored.
		if err := i.room.wait(ctx); err != nil {
			return err
		}
		if err := i.store(ctx, s, batch); err != nil {
			return err
		}
		moved, s.failures = true, 0
	}
	return nil
}

// refuses reports whether an error is the answer that a position says nothing to its
// source, which it will say again.
func refuses(err error, after Cursor) bool { return after != "" && errors.Is(err, fault.Gap) }

func (i *Inbox) subscribe(ctx context.Context, s *stream, after Cursor) (sub provider.Subscription, err error) {
	defer contained("the provider of "+string(s.connection), &err)
	sub, err = i.config.Listen(s.claim.with(ctx), &s.triggers[0].Trigger, after)
	switch {
	case err != nil:
		return nil, err
	case sub == nil:
		return nil, fault.New(fault.ResultInvalid, "provider returned no subscription")
	}
	s.claim.hold()
	return sub, nil
}

func (i *Inbox) unsubscribe(ctx context.Context, s *stream, sub provider.Subscription) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	err := i.apart("the provider of "+string(s.connection), func() error { return sub.Close(ctx) })
	if err != nil {
		i.warn(s.triggers[0], "subscription was not closed cleanly", err)
	}
}

// batches yields what is to be stored together. Asking for the next one means
// that the last is stored.
func batches(sub provider.Subscription) iter.Seq2[[]Event, error] {
	if b, ok := sub.(provider.Batcher); ok {
		return b.Batches()
	}
	return func(yield func([]Event, error) bool) {
		for ev, err := range sub.Events() {
			if !yield([]Event{ev}, err) {
				return
			}
		}
	}
}

// store takes in events of one stream, all in one transaction.
func (i *Inbox) store(ctx context.Context, s *stream, events []Event) error {
	all := make([]arrival, len(events))
	for n, ev := range events {
		a, err := i.arrive(ctx, s, ev)
		if all[n] = a; err != nil {
			i.release(ctx, unstored(all[:n+1])...)
			return err
		}
	}
	return i.accept(ctx, all)
}

// up notes that a stream is listened to.
func (i *Inbox) up(s *stream) {
	for _, t := range s.triggers {
		t.book.add(func(b *TriggerStatus) { b.Listening, b.Err = true, nil })
	}
	s.wasTried()
}

// late notes why a stream is not listened to yet, where that was told.
func (i *Inbox) late(s *stream, err error) {
	defer s.wasTried()
	err = i.brief(err)
	for _, t := range s.triggers {
		t.book.add(func(b *TriggerStatus) { b.Err = err })
	}
}

// silent notes that nobody listens any more.
func (i *Inbox) silent(s *stream) {
	defer s.wasTried()
	for _, t := range s.triggers {
		t.book.add(func(b *TriggerStatus) { b.Listening = false })
	}
}

// down notes that a stream is not listened to, and tells when that or its reason
// is news.
func (i *Inbox) down(s *stream, err error) {
	defer s.wasTried()
	if err != nil {
		err = i.brief(err)
	}
	for _, t := range s.triggers {
		news := false
		t.book.add(func(b *TriggerStatus) {
			news = err != nil && (b.Err == nil || fault.CodeOf(b.Err) != fault.CodeOf(err))
			b.Listening, b.Err = false, err
		})
		if news {
			i.warn(t, "trigger "+string(t.ID)+" does not listen; it will try again", err)
		}
	}
}
