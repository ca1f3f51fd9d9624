package triggers

import (
	"context"
	"slices"
	"time"
)

// baselineSize is how many schedules begin in one transaction.
const baselineSize = 256

// clocked returns the streams that are schedules. What is wrong with the way a
// schedule is listened to is for the gates to say.
func (i *Inbox) clocked() []*stream {
	var schedules []*stream
	for _, s := range i.streams {
		if s.schedule = i.scheduleOf(s); s.schedule != nil {
			schedules = append(schedules, s)
		}
	}
	return schedules
}

// scheduleOf returns the schedule that a stream is, nil if it is none.
func (i *Inbox) scheduleOf(s *stream) *cronProvider {
	if i.config.Provider == nil || s.event != Tick || s.triggers[0].Args != nil {
		return nil
	}
	p, ok := i.config.Provider(s.connection).(*cronProvider)
	if !ok || p.Check() != nil {
		return nil
	}
	return p
}

// tick follows schedules until ctx ends: one goroutine, one timer, and one
// transaction for all that is due.
func (i *Inbox) tick(ctx context.Context, all []*stream) {
	clock := newScheduler()
	for n, s := range all {
		s.follow(clock, n)
	}
	defer func() {
		for _, s := range all {
			i.silent(s)
		}
	}()
	if !i.beginTicking(ctx, all) {
		return
	}
	for _, s := range all {
		i.up(s)
	}
	// It returns when ctx ends, and with nothing else.
	_ = clock.run(ctx, func(ctx context.Context, due []firing) error {
		err := i.fire(ctx, all, due)
		if err != nil && ctx.Err() == nil {
			i.warn(nil, "ticks cannot be stored; it is tried again", err)
		}
		return err
	})
}

// follow adds a schedule where it stood. If that is no instant, another kind of
// source had the name before: the schedule begins now, and tells a gap.
func (s *stream) follow(clock *scheduler, key int) {
	at, err := clock.add(s.schedule, s.position, key)
	if err != nil {
		s.known, s.lost = false, true
		at, _ = clock.add(s.schedule, "", key) // it was checked, and now is an instant
	}
	s.baseline = at
}

// beginTicking stores where new schedules begin, so that their first tick is
// caught up too, and reports whether it came to that before ctx ended.
func (i *Inbox) beginTicking(ctx context.Context, all []*stream) bool {
	var fresh []arrival
	for _, s := range all {
		if !s.known {
			fresh = append(fresh, arrival{stream: s, cursor: s.baseline, gap: s.lost})
		}
	}
	for some := range slices.Chunk(fresh, baselineSize) {
		for failures := 1; ; failures++ {
			err := i.accept(ctx, some)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return false
			}
			i.warn(nil, "the beginning of schedules cannot be stored; it is tried again", err)
			for _, s := range all {
				i.late(s, err)
			}
			select {
			case <-time.After(i.pause(failures)):
			case <-ctx.Done():
				return false
			}
		}
	}
	return true
}

// fire stores what is due.
func (i *Inbox) fire(ctx context.Context, all []*stream, due []firing) error {
	if err := i.room.wait(ctx); err != nil {
		return err
	}
	var arrived []arrival
	for _, f := range due {
		for _, ev := range f.events {
			a, err := i.arrive(ctx, all[f.key], ev)
			if err != nil {
				return err
			}
			arrived = append(arrived, a)
		}
	}
	return i.accept(ctx, arrived)
}
