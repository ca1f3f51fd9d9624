package triggers

import (
	"context"
	"fmt"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// run lets Start look for events until it returns or the feed ends.
func (f *feed) run(ctx context.Context) {
	defer close(f.ran)
	var err error = fault.New(fault.Panicked, "the source's Start ended its goroutine without returning")
	defer func() {
		if err != nil {
			f.end(err)
		}
	}()
	err = f.began(ctx)
}

// began is Start with its error made one of ours.
func (f *feed) began(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Panicked, "the source's Start panicked: %s", fault.Quote(fmt.Sprint(p)))
		}
	}()
	if err := f.source.opts.Start(ctx, f.start, f.emit); err != nil {
		return fault.New(fault.Unavailable, "the source's Start: %w", err)
	}
	return nil
}

// emit is what Start tells with: to this feed alone.
func (f *feed) emit(ctx context.Context, m Emission) error {
	e, err := f.wanted(m)
	if err != nil || e == nil {
		return err
	}
	if ctx.Err() != nil {
		return ended(context.Cause(ctx), f.event)
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	d := newDelivery(1)
	f.push(*e, d)
	return d.wait(ctx, nil, f.event, []*feed{f})
}

// wanted makes the event of an emission: a quiet one if it only moves the
// position on, none if it does not even do that.
func (f *feed) wanted(m Emission) (*provider.Event, error) {
	if onlyCursor(m) {
		return f.quiet(m), nil
	}
	e, err := f.source.event(m)
	switch {
	case err != nil:
		return nil, err
	case e.Type == f.event:
		return &e, nil
	case e.Cursor == "":
		return nil, nil
	}
	return f.quiet(m), nil
}

func onlyCursor(m Emission) bool {
	return m.Cursor != "" && m.Type == "" && m.ID == "" && m.Payload == nil
}

func (f *feed) quiet(m Emission) *provider.Event {
	return &provider.Event{Kind: provider.EventCursor, Type: f.event, Cursor: m.Cursor, Time: m.Time}
}
