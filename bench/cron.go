package main

import (
	queue "container/heap"
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/bridle-dev/bridle/internal/crontab"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

func cronFigures() []figure {
	return []figure{
		{
			name: "cron/memory", unit: "B", target: 300,
			about: "memory of one of 10,000 schedules: its provider, and its place among those that are followed",
			open:  cronMemory,
		},
		{
			name: "cron/cpu", unit: "×", compare: ratio, target: 1.5,
			about: "processor time of a schedule that is due, against a bare heap with one timer over robfig's parsed schedules",
			open:  cronTime,
		},
	}
}

const scheduleCount = 10_000

// secondSpec is due once a minute, at a second of its own: 167 of 10,000 are due
// at a time, the first of them in the next second.
func secondSpec(i int, now time.Time) string {
	return fmt.Sprintf("%d * * * * *", (now.Second()+1+i)%60)
}

func cronMemory(_ context.Context, p plan) (*rig, error) {
	n := p.many(scheduleCount)
	return &rig{once: true, close: func() {}, subject: func(context.Context, int) (float64, error) {
		specs := make([]string, n) // the caller's own
		for i := range specs {
			specs[i] = fmt.Sprintf("%d %d * * %d", i%60, i/60%24, i%7)
		}
		before := heap()
		clock, all := crontab.NewScheduler(), make([]provider.Provider, n)
		for i := range all {
			all[i] = triggers.Cron(specs[i], nil)
			// A provider does not show its plan, so there are two here instead of one.
			s, err := crontab.Parse(specs[i], false, nil)
			if err != nil {
				return 0, err
			}
			clock.Add(i, &crontab.Plan{Schedule: s, Keep: 1}, time.Now().Unix())
		}
		used := heap() - before
		runtime.KeepAlive(clock)
		runtime.KeepAlive(all)
		runtime.KeepAlive(specs)
		return used / float64(n), nil
	}}, nil
}

// cronTime lets both run in real time for two wake-ups a sample.
func cronTime(_ context.Context, p plan) (*rig, error) {
	n := p.many(scheduleCount)
	enough := max(1, 2*n/60)
	return &rig{once: true, close: func() {}, baseline: bareTime(n, enough), subject: scheduledTime(n, enough)}, nil
}

// errEnough ends a sample.
var errEnough = errors.New("enough schedules have been due")

func scheduledTime(n, enough int) sampler {
	return func(ctx context.Context, _ int) (float64, error) {
		clock, now := crontab.NewScheduler(), time.Now()
		for i := range n {
			s, err := crontab.Parse(secondSpec(i, now), true, nil)
			if err != nil {
				return 0, err
			}
			clock.Add(i, &crontab.Plan{Schedule: s, Keep: 1}, now.Unix())
		}
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		return processorTime(func() (fired int, err error) {
			err = clock.Run(ctx, func(_ context.Context, due []crontab.Due) error {
				for _, d := range due {
					fired += len(d.Ticks)
				}
				if fired >= enough {
					stop(errEnough)
				}
				return nil
			})
			return fired, err
		})
	}
}

func bareTime(n, enough int) sampler {
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	return func(ctx context.Context, _ int) (float64, error) {
		var all bareHeap
		now := time.Now().UTC()
		for i := range n {
			s, err := parser.Parse(secondSpec(i, now))
			if err != nil {
				return 0, err
			}
			all = append(all, &bareEntry{key: i, schedule: s, next: s.Next(now)})
		}
		queue.Init(&all)
		return processorTime(func() (int, error) { return all.run(ctx, enough) })
	}
}

// bareHeap is one heap and one timer, and nothing else: nothing is added,
// nothing fails, and nobody sets the clock.
type bareHeap []*bareEntry

type bareEntry struct {
	key      int
	schedule cron.Schedule
	next     time.Time
}

func (h bareHeap) Len() int           { return len(h) }
func (h bareHeap) Less(i, j int) bool { return h[i].next.Before(h[j].next) }
func (h bareHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *bareHeap) Push(e any)        { *h = append(*h, e.(*bareEntry)) }
func (h *bareHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (h bareHeap) run(ctx context.Context, enough int) (fired int, err error) {
	timer := time.NewTimer(time.Until(h[0].next))
	defer timer.Stop()
	var due []int
	for fired < enough {
		select {
		case <-ctx.Done():
			return fired, context.Cause(ctx)
		case <-timer.C:
		}
		due = due[:0]
		for now := time.Now().UTC(); !h[0].next.After(now); {
			due = append(due, h[0].key)
			h[0].next = h[0].schedule.Next(now)
			queue.Fix(&h, 0)
		}
		fired += len(due)
		timer.Reset(time.Until(h[0].next))
	}
	return fired, errEnough
}

// processorTime is what the process used while run was at it, in µs a schedule
// that was due.
func processorTime(run func() (fired int, err error)) (float64, error) {
	runtime.GC() // or the collector would be at what was made ready
	before, err := processorUsed()
	if err != nil {
		return 0, err
	}
	fired, err := run()
	if !errors.Is(err, errEnough) {
		return 0, err
	}
	after, err := processorUsed()
	return micros(after-before) / float64(fired), err
}

func processorUsed() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
