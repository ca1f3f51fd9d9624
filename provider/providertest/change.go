package providertest

import (
	"context"
	"sync/atomic"

	"github.com/bridle-dev/bridle/provider"
)

func changeCases() []testCase {
	return []testCase{
		{name: "Watch/reports changes, one at a time", needs: []need{needWatch(), needChange()}, check: watchReports},
		{name: "Watch/is quiet after stop", needs: []need{needWatch(), needChange()}, check: watchStops},
		{name: "Watch/stop and Release in any order", needs: []need{needWatch()}, check: watchReleased},
		{name: "Reset/leaves a connection that works", needs: []need{needReset()}, check: resetWorks},
	}
}

func watchReports(ctx context.Context, s *session) {
	c := s.connect(ctx)
	var inside atomic.Bool
	seen := make(chan provider.Change, 100)
	stop := ability[provider.Watcher](s, c).Watch(func(change provider.Change) {
		if inside.Swap(true) {
			s.Errorf("two changes were reported at a time")
		}
		select {
		case seen <- change:
		default:
		}
		inside.Store(false)
	})
	defer stop()
	s.cfg.Change(s.t, s.p)
	s.promptly("the report of a change", func() {
		if change := <-seen; change != provider.ManifestChanged && change != provider.IdentityChanged {
			s.Errorf("a change of unknown kind %q", change)
		}
	})
}

func watchStops(ctx context.Context, s *session) {
	c := s.connect(ctx)
	w := ability[provider.Watcher](s, c)
	var stopped atomic.Bool
	stop := w.Watch(func(provider.Change) {
		if stopped.Load() {
			s.Errorf("a change was reported after stop returned")
		}
	})
	heard := make(chan struct{}, 100)
	stopOther := w.Watch(func(provider.Change) { heard <- struct{}{} })
	defer stopOther()
	for range 10 {
		s.cfg.Change(s.t, s.p)
	}
	s.promptly("stop", stop)
	stopped.Store(true)
	s.cfg.Change(s.t, s.p)
	s.promptly("the report to another watcher", func() { <-heard })
}

func watchReleased(ctx context.Context, s *session) {
	c := s.connect(ctx)
	w := ability[provider.Watcher](s, c)
	before, after := w.Watch(func(provider.Change) {}), w.Watch(func(provider.Change) {})
	s.promptly("stop", before)
	s.release(ctx, c)
	s.promptly("stop after Release", after)
	s.promptly("Watch after Release", func() { w.Watch(func(provider.Change) {})() })
}

func resetWorks(ctx context.Context, s *session) {
	c := s.connect(ctx)
	r := ability[provider.Resetter](s, c)
	s.promptly("Reset", func() {
		if err := s.note(r.Reset(ctx)); err != nil {
			s.Errorf("Reset: %v", err)
		}
	})
	s.works(ctx, c)
}
