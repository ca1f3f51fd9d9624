package triggers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/crontab"
	"github.com/bridle-dev/bridle/provider"
)

func cronOf(spec string, opts *CronOptions) *cronProvider { return Cron(spec, opts).(*cronProvider) }

func TestTheSchedulerTellsWhatASubscriptionTells(t *testing.T) {
	specs := []string{"*/7 * * * *", "@every 13m", "0 */2 * * *"}
	for _, catchUp := range []CatchUp{CatchUpAll, CatchUpLast, CatchUpNone} {
		synctest.Test(t, func(t *testing.T) {
			<-time.After(26 * time.Hour)
			s, got := newScheduler(), map[int][]provider.Event{}
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Hour+30*time.Second)
			defer stop()
			for key, spec := range specs {
				base, err := s.add(cronOf(spec, &CronOptions{CatchUp: catchUp, CatchUpMost: 11}), "2000-01-01T12:00:00Z", key)
				if err != nil || base != "2000-01-01T12:00:00Z" {
					t.Fatalf("baseline %s, %v", base, err)
				}
			}
			want := make([]<-chan []provider.Event, len(specs))
			for key, spec := range specs {
				want[key] = subscribed(ctx, t, cronOf(spec, &CronOptions{CatchUp: catchUp, CatchUpMost: 11}))
			}
			err := s.run(ctx, func(_ context.Context, due []firing) error {
				for _, f := range due {
					got[f.key] = append(got[f.key], f.events...)
				}
				return nil
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("run ended with %v", err)
			}
			for key := range specs {
				if diff := cmp.Diff(<-want[key], got[key]); diff != "" {
					t.Errorf("%s (-subscription +scheduler):\n%s", specs[key], diff)
				}
			}
		})
	}
}

// subscribed collects what a subscription yields until ctx ends.
func subscribed(ctx context.Context, t *testing.T, p *cronProvider) <-chan []provider.Event {
	conns, err := p.Connect(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := conns[0].(provider.Listener).Listen(ctx, &provider.ListenRequest{Event: Tick, After: "2000-01-01T12:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Close(context.WithoutCancel(ctx)) })
	result := make(chan []provider.Event, 1)
	go func() {
		var all []provider.Event
		for batch, err := range sub.(provider.Batcher).Batches() {
			if err != nil {
				t.Error(err)
			}
			all = append(all, batch...)
		}
		result <- all
	}()
	return result
}

func TestTheBaselineOfANewScheduleIsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(90 * time.Second)
		base, err := newScheduler().add(cronOf("@daily", nil), "", 1)
		if err != nil || base != "2000-01-01T00:01:30Z" {
			t.Errorf("got %s, %v", base, err)
		}
	})
}

func TestTheSchedulerRefusesMistakes(t *testing.T) {
	s := newScheduler()
	if _, err := s.add(cronOf("@sometimes", nil), "", 1); !errors.Is(err, fault.ConnectionInvalid) {
		t.Errorf("a bad spec: %v", err)
	}
	if _, err := s.add(cronOf("@daily", nil), "17", 1); !errors.Is(err, fault.OpFailed) {
		t.Errorf("a bad cursor: %v", err)
	}
}

// The events of one call lie in one array, and must not run into each other.
func TestEventsBelongToWhoeverGetsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler()
		for key := range 3 {
			if _, err := s.add(cronOf("* * * * *", nil), "", key); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), 90*time.Second)
		defer stop()
		_ = s.run(ctx, func(_ context.Context, due []firing) error {
			for _, f := range due {
				if string(f.events[0].Payload) != `{"at":"2000-01-01T00:01:00Z"}` {
					t.Errorf("payload %s", f.events[0].Payload)
				}
				clear(f.events[0].Payload)
				_ = append(f.events, provider.Event{Payload: []byte("another's")})
			}
			return nil
		})
	})
}

// BenchmarkFirings makes the events of schedules that are due at one instant, on
// top of what the figure cron/cpu measures.
func BenchmarkFirings(b *testing.B) {
	const many = 167
	s, p := newScheduler(), cronOf("* * * * *", nil)
	due := make([]crontab.Due, many)
	for i := range due {
		due[i] = crontab.Due{Key: i, Plan: &p.plan, Ticks: []int64{1_800_000_000}}
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(s.firings(due)) != many {
			b.Fatal("a firing is missing")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/tick")
}
