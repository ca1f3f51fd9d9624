package triggers

import (
	"context"

	"github.com/bridle-dev/bridle/internal/crontab"
	"github.com/bridle-dev/bridle/provider"
)

// scheduler follows any number of schedules with one heap and one timer, for
// whoever would otherwise hold a subscription and a goroutine for each. Ticks are
// those that a subscription to the same provider yields.
type scheduler struct {
	clock  *crontab.Scheduler
	writer tickWriter // of the goroutine that is in run
}

// firing is what one schedule owes: a gap first if ticks were skipped, then
// ticks in order. The events belong to whoever gets them.
type firing struct {
	key    int
	events []provider.Event
}

func newScheduler() *scheduler { return &scheduler{clock: crontab.NewScheduler()} }

// add follows c from after, under a key of the caller's. baseline is the cursor to
// store before the first tick: it is after, or now if that is empty. Errors are
// those of Check and of a malformed cursor.
func (s *scheduler) add(c *cronProvider, after provider.Cursor, key int) (provider.Cursor, error) {
	if err := c.Check(); err != nil {
		return "", err
	}
	at, err := baseline(after)
	if err != nil {
		return "", err
	}
	s.clock.Add(key, &c.plan, at)
	return provider.Cursor(instantName(at)), nil
}

// run calls fire with what comes due, all that is due at a wake-up at once but at
// most crontab.MaxDue events, until ctx ends, and returns the cause of that. A
// schedule advances once fire returned nil. After an error fire gets the same
// again, after a pause that grows from 100 ms to 30 s. It is one call at a time;
// add may be called meanwhile, also by fire.
func (s *scheduler) run(ctx context.Context, fire func(context.Context, []firing) error) error {
	return s.clock.Run(ctx, func(ctx context.Context, due []crontab.Due) error {
		return fire(ctx, s.firings(due))
	})
}

func (s *scheduler) firings(due []crontab.Due) []firing {
	size := 0
	for i := range due {
		size += due[i].Size()
	}
	events, all := make([]provider.Event, 0, size), make([]firing, 0, len(due))
	for i := range due {
		begin := len(events)
		events = s.writer.events(events, &due[i])
		all = append(all, firing{key: due[i].Key, events: events[begin:len(events):len(events)]})
	}
	return all
}
