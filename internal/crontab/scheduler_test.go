package crontab_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/internal/crontab"
)

func plan(t testing.TB, text string, keep int) *crontab.Plan {
	t.Helper()
	return &crontab.Plan{Schedule: parse(t, text, nil), Keep: keep}
}

// listing writes down what it is handed: when, and what of which key.
type listing struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (l *listing) fire(_ context.Context, due []crontab.Due) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := time.Now().UTC().Format("15:04:05")
	slices.SortFunc(due, func(a, b crontab.Due) int { return a.Key - b.Key })
	for _, d := range due {
		line += fmt.Sprintf(" %d:", d.Key)
		if s := d.Skipped; s.Count > 0 {
			line += fmt.Sprintf("-%d(%s..%s)", s.Count, clock(s.First), clock(s.Last))
		}
		for _, at := range d.Ticks {
			line += "+" + clock(at)
		}
	}
	l.lines = append(l.lines, line)
	return nil
}

func clock(at int64) string { return time.Unix(at, 0).UTC().Format("15:04:05") }

func (l *listing) wants(t *testing.T, lines ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if diff := cmp.Diff(lines, l.lines); diff != "" {
		t.Errorf("handed over (-want +got):\n%s", diff)
	}
}

// running lets a scheduler run beside the test, until the test ends or stop.
func running(t *testing.T, s *crontab.Scheduler, fire func(context.Context, []crontab.Due) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	reason := errors.New("stopped by the test")
	go func() { ended <- s.Run(ctx, fire) }()
	return func() {
		cancel(reason)
		if err := <-ended; !errors.Is(err, reason) {
			t.Errorf("Run ended with %v, want the cause", err)
		}
	}
}

func now() int64 { return time.Now().Unix() }

func TestAllThatIsDueAtAWakeUpComesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, got := crontab.NewScheduler(), &listing{}
		s.Add(1, plan(t, "*/10 * * * *", 9), now())
		s.Add(2, plan(t, "*/20 * * * *", 9), now())
		stop := running(t, s, got.fire)
		<-time.After(15 * time.Minute)
		s.Add(3, plan(t, "16 * * * *", 9), now()) // while it sleeps until 00:20
		<-time.After(6 * time.Minute)
		stop()
		got.wants(t, "00:10:00 1:+00:10:00", "00:16:00 3:+00:16:00", "00:20:00 1:+00:20:00 2:+00:20:00")
	})
}

func TestAFailedHandOverIsRepeatedAndNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, got := crontab.NewScheduler(), &listing{}
		s.Add(1, plan(t, "* * * * *", 9), now())
		s.Add(2, plan(t, "* * * * *", 9), now())
		var attempts []time.Duration
		began := time.Now()
		stop := running(t, s, func(ctx context.Context, due []crontab.Due) error {
			attempts = append(attempts, time.Since(began))
			switch len(attempts) {
			case 1, 2, 3:
				if len(due) != 2 || len(due[0].Ticks) != 1 {
					t.Errorf("attempt %d was about %+v", len(attempts), due)
				}
				return errors.New("the disk is full")
			}
			return got.fire(ctx, due)
		})
		<-time.After(2*time.Minute + time.Second)
		stop()
		got.wants(t, "00:01:00 1:+00:01:00 2:+00:01:00", "00:02:00 1:+00:02:00 2:+00:02:00")
		want := []time.Duration{time.Minute, time.Minute + 100*time.Millisecond, time.Minute + 300*time.Millisecond,
			time.Minute + 700*time.Millisecond, 2 * time.Minute}
		if diff := cmp.Diff(want, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}

func TestWhoStoppedInTheMiddleBeginsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, got := crontab.NewScheduler(), &listing{}
		s.Add(1, plan(t, "* * * * *", 9), now())
		stop := running(t, s, func(context.Context, []crontab.Due) error { return errors.New("no") })
		<-time.After(65 * time.Second)
		stop()
		stop = running(t, s, got.fire)
		synctest.Wait()
		stop()
		got.wants(t, "00:01:05 1:+00:01:00")
	})
}

func TestWhatWasMissedIsMadeUpFor(t *testing.T) {
	cases := []struct {
		keep int
		want string
	}{
		{0, "00:00:00 1:-4(20:30:00..23:30:00)"},
		{1, "00:00:00 1:-3(20:30:00..22:30:00)+23:30:00"},
		{3, "00:00:00 1:-1(20:30:00..20:30:00)+21:30:00+22:30:00+23:30:00"},
		{4, "00:00:00 1:+20:30:00+21:30:00+22:30:00+23:30:00"},
		{1000, "00:00:00 1:+20:30:00+21:30:00+22:30:00+23:30:00"},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			s, got := crontab.NewScheduler(), &listing{}
			s.Add(1, plan(t, "30 * * * *", c.keep), now()-4*60*60)
			stop := running(t, s, got.fire)
			synctest.Wait()
			stop()
			got.wants(t, c.want)
		})
	}
}

func TestALapseIsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, got := crontab.NewScheduler(), &listing{}
		s.Add(1, plan(t, "* * * * *", 1), now())
		s.Add(2, plan(t, "* * * * *", 0), now())
		slow := 0
		stop := running(t, s, func(ctx context.Context, due []crontab.Due) error {
			slow++
			switch slow {
			case 1:
				<-time.After(110 * time.Second) // shorter than a lapse
			case 3:
				<-time.After(10*time.Minute + 30*time.Second)
			}
			return got.fire(ctx, due)
		})
		<-time.After(15*time.Minute + 30*time.Second)
		stop()
		got.wants(t,
			"00:02:50 1:+00:01:00 2:+00:01:00",
			"00:02:50 1:+00:02:00 2:+00:02:00",
			"00:13:30 1:+00:03:00 2:+00:03:00",
			"00:13:30 1:-9(00:04:00..00:12:00)+00:13:00 2:-10(00:04:00..00:13:00)",
			"00:14:00 1:+00:14:00 2:+00:14:00", "00:15:00 1:+00:15:00 2:+00:15:00")
	})
}

func TestHandOversAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := crontab.NewScheduler()
		const minutes = 10_000
		for key := range 3 {
			s.Add(key, plan(t, "* * * * *", minutes), now()-60*minutes)
		}
		calls, ticks := 0, map[int][]int64{}
		stop := running(t, s, func(_ context.Context, due []crontab.Due) error {
			calls++
			size := 0
			for _, d := range due {
				size += d.Size()
				ticks[d.Key] = append(ticks[d.Key], d.Ticks...)
			}
			if size == 0 || size > crontab.MaxDue {
				t.Errorf("a call with %d", size)
			}
			return nil
		})
		synctest.Wait()
		stop()
		if calls != 3*minutes/crontab.MaxDue {
			t.Errorf("%d calls", calls)
		}
		for key, got := range ticks {
			for i, at := range got {
				if at != now()-60*int64(minutes-1-i) {
					t.Fatalf("tick %d of %d is %s", i, key, clock(at))
				}
			}
			if len(got) != minutes {
				t.Errorf("%d has %d ticks", key, len(got))
			}
		}
	})
}

// Many schedules that are added in the course of time, against each one followed
// alone.
func TestManySchedulesAreEachFollowedLikeOne(t *testing.T) {
	specs := []string{"*/7 * * * *", "3,33 * * * *", "@every 11m", "15 */3 * * *", "@hourly", "50 23 * * *", "*/13 1-20 * * *"}
	synctest.Test(t, func(t *testing.T) {
		s, random := crontab.NewScheduler(), rand.New(rand.NewPCG(1, 2))
		type life struct {
			plan *crontab.Plan
			from int64
		}
		lives, got := map[int]life{}, map[int][]int64{}
		stop := running(t, s, func(_ context.Context, due []crontab.Due) error {
			for _, d := range due {
				got[d.Key] = append(got[d.Key], d.Ticks...)
				if at := d.Ticks[0]; at != now() {
					t.Errorf("%s comes at %s", clock(at), clock(now()))
				}
			}
			return nil
		})
		for key := range 500 {
			p := plan(t, specs[random.IntN(len(specs))], 100)
			s.Add(key, p, now())
			lives[key] = life{p, now()}
			<-time.After(time.Duration(random.IntN(10)) * time.Minute)
			synctest.Wait()
		}
		end := now()
		stop()
		for key, l := range lives {
			if diff := cmp.Diff(instants(&l.plan.Schedule, l.from, end+1), got[key]); diff != "" {
				t.Errorf("schedule %d (-alone +together):\n%s", key, diff)
			}
		}
	})
}

func TestAddWhileItRuns(t *testing.T) {
	const workers, each = 4, 200
	s, seen, all := crontab.NewScheduler(), map[int]bool{}, make(chan struct{})
	stop := running(t, s, func(_ context.Context, due []crontab.Due) error {
		before := len(seen)
		for _, d := range due {
			seen[d.Key] = true
		}
		if before < workers*each && len(seen) == workers*each {
			close(all)
		}
		return nil
	})
	for worker := range workers {
		go func() {
			for i := range each {
				s.Add(worker*each+i, plan(t, "* * * * *", 5), now()-600) // which owes something
			}
		}()
	}
	<-all
	stop()
}

func TestSkippedInstantsAreCountedUpToABound(t *testing.T) {
	f := crontab.Follow(&crontab.Plan{Schedule: parse(t, "* * * * * *", nil), Keep: 2}, now()-3*crontab.MaxCount)
	d := f.Due(10)
	if d.Skipped.Count != crontab.MaxCount || len(d.Ticks) < 2 {
		t.Errorf("skipped %+v, then %d ticks", d.Skipped, len(d.Ticks))
	}
	if d.Ticks[0] != d.Skipped.Last+1 {
		t.Errorf("ticks begin at %d after %d", d.Ticks[0], d.Skipped.Last)
	}
}
