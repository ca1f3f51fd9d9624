package crash_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
)

// Sizes, in kills.
const (
	usual = 40
	long  = 200
)

func size(t *testing.T) int {
	if text := os.Getenv("BRIDLE_CRASH"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("BRIDLE_CRASH: %v", err)
		}
		return n
	}
	if os.Getenv("BRIDLE_LONG") != "" {
		return long
	}
	return usual
}

// undisturbed is a run that nothing happened to.
type undisturbed struct {
	result *result
	done   map[string]bool
}

func TestARunThatIsKilledAnywhereEndsAsIfItHadNotBeen(t *testing.T) {
	variants := []variant{
		{directly, connection.ResendUnknown}, {asTurn, connection.ResendUnknown},
		{directly, connection.AskUnknown}, {asTurn, connection.AskUnknown},
		{talking, connection.ResendUnknown},
	}
	want := map[variant]*undisturbed{}
	for _, v := range variants {
		tr := newTrial(t, v)
		tr.run()
		if tr.result.Err != "" {
			t.Fatalf("%v: undisturbed: %s", v, tr.result.Err)
		}
		want[v] = &undisturbed{tr.result, tr.done()}
		tr.check(want[v])
	}
	var all figures
	t.Run("kills", func(t *testing.T) {
		for _, p := range plans(size(t), variants, want) {
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				tr := newTrial(t, p.variant)
				tr.run(p.kills...)
				tr.check(want[p.variant])
				all.add(tr)
			})
		}
	})
	t.Log(all.String())
}

// plan is where the processes of one trial are killed.
type plan struct {
	variant
	kills []int64
}

func (p plan) String() string { return fmt.Sprintf("%v-%v", p.variant, p.kills) }

// plans spreads kills over the points of all variants: at most once over each,
// and what is left kills two processes of a trial.
func plans(kills int, variants []variant, want map[variant]*undisturbed) (all []plan) {
	total := int64(0)
	for _, v := range variants {
		total += want[v].result.Points
	}
	single := min(int64(kills)*4/5, total)
	double := (int64(kills) - single) / 2
	at := func(i, n int64) (variant, int64) { // the i-th of n places
		place := i * total / n
		for _, v := range variants {
			if place < want[v].result.Points {
				return v, place + 1
			}
			place -= want[v].result.Points
		}
		panic("beyond the last point")
	}
	for i := range single {
		v, point := at(i, single)
		all = append(all, plan{v, []int64{point}})
	}
	for i := range double {
		v, point := at(i, double)
		left := want[v].result.Points - point // the next process has about as many
		all = append(all, plan{v, []int64{point, 1 + i*37%max(4, min(97, left))}})
	}
	return all
}

// figures are what all trials came to.
type figures struct {
	mu                           sync.Mutex
	trials, kills, ended, unsure int
	doubts, repeated             int
	where                        map[string]int
}

func (f *figures) add(t *trial) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trials++
	f.kills += t.kills
	if t.result.Err == "" {
		f.ended++
	} else {
		f.unsure++
	}
	for _, n := range t.doubts {
		f.doubts += n
	}
	for _, e := range t.peer.effects {
		f.repeated += max(0, e.done-1)
	}
	if f.where == nil {
		f.where = map[string]int{}
	}
	for _, w := range t.where {
		f.where[w]++
	}
}

func (f *figures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%d trials with %d kills: %d ended as if nothing had happened, %d as outcome_unknown; %d calls were in doubt, %d effects repeated as told\nkilled %v",
		f.trials, f.kills, f.ended, f.unsure, f.doubts, f.repeated, f.where)
}

// check judges how a trial ended.
func (t *trial) check(want *undisturbed) {
	t.Helper()
	t.checkEffects()
	t.checkSecret()
	t.checkThings()
	doubt := t.mustDoubt()
	switch {
	case doubt != "" && !t.turnsOn(doubt):
		t.checkUnknown(doubt)
		return
	case t.result.Err != "":
		t.Errorf("failed: %s", t.result.Err)
		return
	case t.kind == talking:
		t.checkTalk()
	case doubt == "":
		t.checkSame(want)
	}
	t.checkTold()
	t.checkLedger()
	t.checkAgain()
}

// checkSame looks whether a trial came to what it comes to undisturbed.
func (t *trial) checkSame(want *undisturbed) {
	t.Helper()
	if diff := cmp.Diff(want.result.Out, t.result.Out); diff != "" {
		t.Errorf("came to something else (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.done, t.done()); diff != "" {
		t.Errorf("other calls reached the peer (-want +got):\n%s", diff)
	}
}
