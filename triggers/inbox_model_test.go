package triggers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// TestWhateverHappensNothingIsLostDoubledOrOutOfOrder plays random stories of
// events, failures, deaths of the process and decisions of people, and compares
// what comes of them with a list of what the peer said.
func TestWhateverHappensNothingIsLostDoubledOrOutOfOrder(t *testing.T) {
	stories := uint64(40)
	if testing.Short() {
		stories = 10
	}
	for seed := range stories {
		t.Run(fmt.Sprint("story ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newStory(t, seed).play() })
		})
	}
}

// story is a world in which things happen at random.
type story struct {
	*world
	mortal *mortal

	mu   sync.Mutex
	rand *rand.Rand // guarded by mu
	calm bool       // nothing fails any more; guarded by mu

	said    []string        // ids, in the order of the peer
	dropped map[string]bool // messages that somebody dropped
}

func newStory(t *testing.T, seed uint64) *story {
	s := &story{rand: rand.New(rand.NewPCG(seed, 1)), dropped: map[string]bool{}, mortal: &mortal{Store: memory(t)}}
	one := byLetter("t")
	one.Attempts = 3
	s.world = newWorld(t, s.mortal, one)
	s.peers["peer"].batches = seed%2 == 0
	s.cfg.Limits.Threads = 1 + int(seed%3)
	s.cfg.Limits.Pending = 3 + int(seed%5)*10
	s.turn = s.act
	s.apart = seed%4 == 3
	return s
}

func (s *story) dice(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

// act is a turn: it checks that its time has come, and ends somehow.
func (s *story) act(ctx context.Context, d *triggers.Delivery) error {
	for m, err := range s.inbox.List(ctx, triggers.InboxFilter{Thread: d.Thread}) {
		if err != nil {
			return err
		}
		if m.ID == d.Message {
			break
		}
		if m.State == triggers.Pending || m.State == triggers.Running {
			s.t.Errorf("%s began while %s was %s", d.Message, m.ID, m.State)
		}
	}
	time.Sleep(time.Duration(s.dice(2000)) * time.Millisecond)
	s.mu.Lock()
	calm := s.calm
	s.mu.Unlock()
	switch n := s.dice(10); {
	case calm, n < 6:
		return nil
	case n == 6:
		return fault.New(fault.OutcomeUnknown, "who knows")
	case n == 7:
		panic("boom")
	}
	return errors.New("no luck")
}

func (s *story) play() {
	s.start()
	synctest.Wait()
	for range 80 {
		s.happen(s.dice(20))
		synctest.Wait()
	}
	s.end()
	s.judge()
}

// happen lets something happen.
func (s *story) happen(n int) {
	switch {
	case n < 9:
		s.say()
	case n < 13:
		time.Sleep(time.Duration(s.dice(5000)) * time.Millisecond)
	case n == 13:
		s.peers["peer"].lose(nil)
	case n < 16: // it dies sooner or later, and somebody starts it again
		s.mortal.die(1+s.dice(6), s.dice(2) == 0)
		s.say()
		time.Sleep(time.Duration(s.dice(3000)) * time.Millisecond)
		s.stop()
		s.mortal.live()
		s.start()
	case n == 16:
		s.again()
	case n == 17:
		s.decide(func(m *triggers.Message) {
			if s.inbox.Retry(s.t.Context(), m.ID) != nil && m.State == triggers.Dead {
				s.t.Errorf("%s cannot be retried", m.ID)
			}
		})
	default:
		s.decide(func(m *triggers.Message) {
			if s.inbox.Drop(s.t.Context(), m.ID, "no need") == nil {
				s.dropped[m.ID] = true
			}
		})
	}
}

// say has the peer say something new, or something old again.
func (s *story) say() {
	id := fmt.Sprintf("%c%d", 'a'+s.dice(4), len(s.said))
	if len(s.said) > 0 && s.dice(5) == 0 {
		s.peers["peer"].add(s.said[s.dice(len(s.said))])
		return
	}
	s.said = append(s.said, id)
	s.peers["peer"].add(id)
}

// decide does something with a message.
func (s *story) decide(f func(*triggers.Message)) {
	if all := s.list(triggers.InboxFilter{}); len(all) > 0 {
		f(all[s.dice(len(all))])
	}
}

// end lets everything come to its end.
func (s *story) end() {
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	s.again()
	time.Sleep(time.Hour)
	for _, m := range s.list(triggers.InboxFilter{State: triggers.Dead}) {
		if err := s.inbox.Retry(s.t.Context(), m.ID); err != nil {
			s.t.Error(err)
		}
	}
	time.Sleep(time.Hour)
	s.stop()
}

// judge compares with what was said.
func (s *story) judge() {
	states := s.states()
	if len(states) != len(s.said) {
		s.t.Errorf("%d messages of %d events", len(states), len(s.said))
	}
	for _, id := range s.said {
		message := "peer:t:" + id
		want := triggers.Done
		if s.dropped[message] {
			want = triggers.Dropped
		}
		if states[message] != want {
			s.t.Errorf("%s is %q, want %s", message, states[message], want)
		}
		if n := len(s.runs[message]); n > 1 || n == 0 && want == triggers.Done {
			s.t.Errorf("%s has %d executions", message, n)
		}
	}
	var got []string
	for _, m := range s.list(triggers.InboxFilter{}) {
		got = append(got, string(m.Event.ID))
	}
	if !slices.Equal(got, s.said) {
		s.t.Errorf("accepted as\n%v, said as\n%v", got, s.said)
	}
	if st := s.status("t"); st.Pending != 0 || st.Running != 0 || st.Dead != 0 || st.Conflicts != 0 || st.Refused != 0 {
		s.t.Errorf("status %+v", st)
	}
}

// TestManyThreadsAtOnce has many sources and threads race on a real store.
func TestManyThreadsAtOnce(t *testing.T) {
	const each = 120
	var all []triggers.Trigger
	for n := range 4 {
		one := byLetter(triggers.ID(fmt.Sprint("t", n)))
		one.Connection = "peer"
		one.Args = map[string]int{"n": n}
		all = append(all, one)
	}
	w := newWorld(t, boltStore(t), all...)
	w.peers["peer"].batches = true
	w.cfg.Limits.Threads, w.cfg.Limits.Pending = 16, 50
	w.cfg.Limits.Pause, w.cfg.Limits.MaxPause = time.Millisecond, 5*time.Millisecond
	w.turn = inTheirOrder(t)
	w.start()
	var said sync.WaitGroup
	said.Go(func() {
		for n := 1; n <= each; n++ {
			w.peers["peer"].add(fmt.Sprintf("%c%d", 'a'+n%20, n))
			if n%40 == 0 {
				w.peers["peer"].lose(nil)
			}
		}
	})
	said.Wait()
	w.until("all are done", func() bool {
		for _, s := range w.inbox.Status() {
			if s.Done != each {
				return false
			}
		}
		return true
	})
	w.stop()
	for id, runs := range w.runs {
		if len(runs) != 1 {
			t.Errorf("%s has %d executions", id, len(runs))
		}
	}
	if len(w.runs) != each*len(all) {
		t.Errorf("%d messages, want %d", len(w.runs), each*len(all))
	}
}

// inTheirOrder is a turn that checks that it is alone on its thread, and that what
// a trigger has there comes in the order of its numbers. One in ten fails at first.
func inTheirOrder(t *testing.T) func(context.Context, *triggers.Delivery) error {
	var mu sync.Mutex
	busy, last := map[provider.ThreadID]bool{}, map[string]int{}
	return func(_ context.Context, d *triggers.Delivery) error {
		mu.Lock()
		if busy[d.Thread] {
			t.Errorf("two turns at once on %s", d.Thread)
		}
		busy[d.Thread] = true
		mu.Unlock()
		runtime.Gosched() // to whoever might be there as well
		mu.Lock()
		defer mu.Unlock()
		busy[d.Thread] = false
		if d.Attempt == 1 && rand.IntN(10) == 0 {
			return errors.New("no luck")
		}
		var n int
		if _, err := fmt.Sscanf(string(d.Event.ID[1:]), "%d", &n); err != nil {
			t.Error(err)
		}
		of := string(d.Trigger.ID) + string(d.Thread)
		if n <= last[of] {
			t.Errorf("%s came after %d", d.Message, last[of])
		}
		last[of] = n
		return nil
	}
}
