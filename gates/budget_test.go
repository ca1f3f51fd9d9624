package gates_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
)

// exceeded checks that err is about one limit and nothing else.
func exceeded(t *testing.T, err error, path string) {
	t.Helper()
	fe, ok := errors.AsType[*fault.Error](err)
	if !ok || fe.Code != fault.BudgetExceeded {
		t.Fatalf("error = %v, want budget_exceeded", err)
	}
	if len(fe.Issues) != 1 || fe.Issues[0].Path != path {
		t.Errorf("issues = %v, want one about %s", fe.Issues, path)
	}
	if fe.Hint == "" {
		t.Error("the error has no hint")
	}
}

func TestABudgetEndsWhereItsLimitIs(t *testing.T) {
	for name, c := range map[string]struct {
		budget gates.Budget
		fits   gates.Amount
		over   gates.Amount
		path   string
	}{
		"calls":     {gates.Budget{Calls: 3}, gates.Amount{Calls: 3}, gates.Amount{Calls: 1}, "/calls"},
		"tokens":    {gates.Budget{Tokens: 100}, gates.Amount{Calls: 9, Tokens: 100}, gates.Amount{Tokens: 1}, "/tokens"},
		"cost":      {gates.Budget{Cost: 0.5}, gates.Amount{Cost: 0.5}, gates.Amount{Cost: 0.01}, "/cost"},
		"none":      {gates.Budget{Calls: -1}, gates.Amount{Tokens: 5}, gates.Amount{Calls: 1}, "/calls"},
		"no number": {gates.Budget{Cost: 1}, gates.Amount{}, gates.Amount{Cost: math.NaN()}, "/cost"},
		"no limit":  {gates.Budget{Cost: math.NaN()}, gates.Amount{}, gates.Amount{Cost: 1}, "/cost"},
		"huge":      {gates.Budget{Calls: 5}, gates.Amount{Calls: 5}, gates.Amount{Calls: math.MaxInt64}, "/calls"},
	} {
		t.Run(name, func(t *testing.T) {
			p := gates.NewPurse("execution 42", c.budget, nil)
			held, err := p.Reserve(c.fits)
			if err != nil {
				t.Fatalf("what fits was refused: %v", err)
			}
			_, err = p.Reserve(c.over)
			exceeded(t, err, c.path)
			held.Settle(c.fits)
			_, err = p.Reserve(c.over)
			exceeded(t, err, c.path)
		})
	}
}

func TestWhatIsNotUsedComesBack(t *testing.T) {
	p := gates.NewPurse("", gates.Budget{Calls: 1, Tokens: 100}, nil)
	held, _ := p.Reserve(gates.Amount{Calls: 1, Tokens: 100})
	held.Settle(gates.Amount{Tokens: 30})
	held.Settle(gates.Amount{Tokens: 70}) // a second time counts nothing
	held.Release()
	if got, want := p.Spent(), (gates.Amount{Tokens: 30}); got != want {
		t.Errorf("spent %v, want %v", got, want)
	}
	held, err := p.Reserve(gates.Amount{Calls: 1, Tokens: 70})
	if err != nil {
		t.Fatalf("the rest was refused: %v", err)
	}
	held.Release()
	if got, want := p.Spent(), (gates.Amount{Tokens: 30}); got != want {
		t.Errorf("spent %v after a release, want %v", got, want)
	}
}

func TestUsingMoreThanWasReservedCountsInFull(t *testing.T) {
	p := gates.NewPurse("", gates.Budget{Tokens: 100}, nil)
	held, _ := p.Reserve(gates.Amount{Tokens: 10})
	held.Settle(gates.Amount{Tokens: 150})
	_, err := p.Reserve(gates.Amount{Tokens: 1})
	exceeded(t, err, "/tokens")
	p.Spend(gates.Amount{Tokens: math.MaxInt64})
	if got := p.Spent().Tokens; got != math.MaxInt64 {
		t.Errorf("spent %d tokens, want no overflow", got)
	}
}

func TestAChildSpendsFromItsParents(t *testing.T) {
	root := gates.NewPurse("harness", gates.Budget{Calls: 10}, nil)
	a := root.Child("execution a", gates.Budget{Calls: 8})
	b := root.Child("execution b", gates.Budget{})
	a1 := a.Child("path 1", gates.Budget{Calls: 100})
	must := func(p *gates.Purse, n int64) {
		t.Helper()
		held, err := p.Reserve(gates.Amount{Calls: n})
		if err != nil {
			t.Fatalf("%d calls were refused: %v", n, err)
		}
		held.Settle(gates.Amount{Calls: n})
	}
	must(a1, 5)
	must(b, 3)
	if _, err := a1.Reserve(gates.Amount{Calls: 3}); !errors.Is(err, fault.BudgetExceeded) {
		t.Errorf("3 calls with 2 left in all: %v", err)
	}
	must(a1, 2)
	if _, err := b.Reserve(gates.Amount{Calls: 1}); !errors.Is(err, fault.BudgetExceeded) {
		t.Errorf("a call when the parent has none left: %v", err)
	}
	for p, want := range map[*gates.Purse]int64{root: 10, a: 7, a1: 7, b: 3} {
		if got := p.Spent().Calls; got != want {
			t.Errorf("spent %d, want %d", got, want)
		}
	}
}

func TestARefusalReservesNothingAnywhere(t *testing.T) {
	root := gates.NewPurse("harness", gates.Budget{Calls: 1}, nil)
	child := root.Child("execution", gates.Budget{Tokens: 5})
	if _, err := child.Reserve(gates.Amount{Calls: 1, Tokens: 6}); !errors.Is(err, fault.BudgetExceeded) {
		t.Fatalf("error = %v", err)
	}
	if _, err := root.Reserve(gates.Amount{Calls: 1}); err != nil {
		t.Errorf("the parent has its call no more: %v", err)
	}
}

func TestParallelCallersNeverOverspend(t *testing.T) {
	const limit = 150
	root := gates.NewPurse("harness", gates.Budget{Calls: limit, Tokens: 4000, Cost: 30}, nil)
	var used, tokens, refused atomic.Int64
	var wg sync.WaitGroup
	for worker := range 16 {
		p := root.Child(fmt.Sprint("execution ", worker), gates.Budget{Calls: 40})
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		wg.Go(func() {
			for range 64 {
				want := gates.Amount{Calls: 1, Tokens: random.Int64N(60), Cost: random.Float64() / 2}
				held, err := p.Reserve(want)
				if err != nil {
					refused.Add(1)
					continue
				}
				got := gates.Amount{Calls: random.Int64N(2), Tokens: random.Int64N(want.Tokens + 1), Cost: want.Cost * random.Float64()}
				used.Add(got.Calls)
				tokens.Add(got.Tokens)
				held.Settle(got)
			}
			if got := p.Spent().Calls; got > 40 {
				t.Errorf("an execution used %d of 40 calls", got)
			}
		})
	}
	wg.Wait()
	spent := root.Spent()
	if spent.Calls > limit || spent.Tokens > 4000 || spent.Cost > 30 {
		t.Errorf("spent %+v, more than there was", spent)
	}
	if spent.Calls != used.Load() || spent.Tokens != tokens.Load() {
		t.Errorf("spent %+v, but %d calls and %d tokens were used", spent, used.Load(), tokens.Load())
	}
	if refused.Load() == 0 {
		t.Error("nothing was refused, so nothing was tested")
	}
	left := limit - spent.Calls
	if _, err := root.Reserve(gates.Amount{Calls: left}); err != nil {
		t.Errorf("the %d calls left were refused: %v", left, err)
	}
}

func TestB194ACallThatFailsCountsToo(t *testing.T) {
	p := gates.NewPurse("", gates.Budget{Calls: 150}, nil)
	sent := 0
	for range 512 {
		held, err := p.Reserve(gates.Amount{Calls: 1})
		if err != nil {
			continue
		}
		sent++
		held.Settle(gates.Amount{Calls: 1})
	}
	if sent != 150 {
		t.Errorf("%d calls were let through, want 150", sent)
	}
}

func TestTimeRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := gates.NewPurse("harness", gates.Budget{Time: time.Hour}, nil)
		time.Sleep(30 * time.Minute)
		child := root.Child("execution", gates.Budget{Time: 40 * time.Minute})
		if at, ok := child.Deadline(); !ok || time.Until(at) != 30*time.Minute {
			t.Errorf("deadline = %v, %v, want that of the parent", at, ok)
		}
		time.Sleep(30*time.Minute - time.Nanosecond)
		if _, err := child.Reserve(gates.Amount{Calls: 1}); err != nil {
			t.Errorf("a call in time was refused: %v", err)
		}
		time.Sleep(time.Nanosecond)
		_, err := child.Reserve(gates.Amount{})
		exceeded(t, err, "/time")
	})
}

func TestTheClockIsTheCallers(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := gates.NewPurse("run", gates.Budget{Time: time.Minute}, func() time.Time { return now }).Child("path", gates.Budget{})
	if _, err := p.Reserve(gates.Amount{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	_, err := p.Reserve(gates.Amount{})
	exceeded(t, err, "/time")
}

func TestANilPurseHasNoLimits(t *testing.T) {
	var none *gates.Purse
	if n := testing.AllocsPerRun(100, func() {
		held, err := none.Reserve(gates.Amount{Calls: math.MaxInt64})
		if err != nil {
			t.Error(err)
		}
		held.Settle(gates.Amount{Calls: 1})
		held.Release()
		none.Spend(gates.Amount{Calls: 1})
	}); n != 0 {
		t.Errorf("it costs %v allocations", n)
	}
	if _, ok := none.Deadline(); ok || none.Spent() != (gates.Amount{}) || none.Child("x", gates.Budget{}) != nil {
		t.Error("it has limits or counts")
	}
	if _, err := none.Child("x", gates.Budget{Calls: 1}).Reserve(gates.Amount{Calls: 2}); !errors.Is(err, fault.BudgetExceeded) {
		t.Errorf("its child has no limits: %v", err)
	}
}

func ExamplePurse() {
	day := gates.NewPurse("the harness", gates.Budget{Calls: 100}, nil)
	run := day.Child("execution 42", gates.Budget{Calls: 2})

	for range 3 {
		held, err := run.Reserve(gates.Amount{Calls: 1})
		if err != nil {
			fmt.Println(errors.Is(err, fault.BudgetExceeded), err)
			break
		}
		// … the call …
		held.Settle(gates.Amount{Calls: 1})
	}
	fmt.Println("used in all:", day.Spent().Calls)
	// Output:
	// true the budget of "execution 42" does not allow it: /calls limit 2, used 2, left 0, needed 1 [budget_exceeded] Nothing was sent. Raise the limit for calls, or finish with what there is.
	// used in all: 2
}

func BenchmarkReserve(b *testing.B) {
	p := gates.NewPurse("harness", gates.Budget{Calls: math.MaxInt64}, nil).Child("execution", gates.Budget{Time: time.Hour})
	b.ReportAllocs()
	for b.Loop() {
		held, err := p.Reserve(gates.Amount{Calls: 1})
		if err != nil {
			b.Fatal(err)
		}
		held.Settle(gates.Amount{Calls: 1})
	}
}
