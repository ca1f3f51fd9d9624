package gates

import (
	"math"
	"sync"
	"time"
)

// Budget limits what may be used. A field of 0 is no limit; one below 0 allows
// nothing. What is left of a budget is shared by everyone under it.
type Budget struct {
	// Calls is how many calls, reads and waits may be sent. Those that fail count.
	Calls int64
	// Tokens is how many tokens models may use.
	Tokens int64
	// Cost is what may be spent, in whatever unit is reserved and settled.
	Cost float64
	// Time is how long work may go on, counted from when its purse was made.
	Time time.Duration
}

// Amount is what something is about to use, or has used.
type Amount struct {
	// Calls, Tokens and Cost are in the units of a Budget. Less than nothing
	// counts as nothing.
	Calls  int64
	Tokens int64
	Cost   float64
}

// normal makes an amount that can be added. A cost that is no number is more
// than any limit.
func (a Amount) normal() Amount {
	a.Calls, a.Tokens = max(a.Calls, 0), max(a.Tokens, 0)
	if math.IsNaN(a.Cost) {
		a.Cost = math.Inf(1)
	}
	a.Cost = max(a.Cost, 0)
	return a
}

func (a Amount) plus(b Amount) Amount {
	return Amount{saturated(a.Calls, b.Calls), saturated(a.Tokens, b.Tokens), a.Cost + b.Cost}
}

// minus takes away what was added before.
func (a Amount) minus(b Amount) Amount {
	cost := a.Cost - b.Cost
	if math.IsNaN(cost) { // infinite, and so was what is taken away
		cost = 0
	}
	return Amount{a.Calls - b.Calls, a.Tokens - b.Tokens, cost}
}

func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Purse is a budget that is being spent. It is asked before something is done
// and told afterwards what that took:
//
//	held, err := purse.Reserve(gates.Amount{Calls: 1})
//	if err != nil {
//		return err // budget_exceeded: nothing was done
//	}
//	defer held.Release()
//	…
//	held.Settle(gates.Amount{Calls: 1})
//
// As what is reserved counts as used until it is settled, callers that work in
// parallel never use more together than there is, as long as each uses no more
// than it reserved.
//
// A nil Purse has no limits and counts nothing. All methods may be called
// concurrently.
type Purse struct {
	owner   string
	limit   Budget
	parent  *Purse
	clock   func() time.Time
	started time.Time

	mu    *sync.Mutex // one for a purse with all its descendants
	spent Amount      // guarded by mu
	held  Amount      // reserved and not settled; guarded by mu
	open  int         // reservations in held; guarded by mu
}

// NewPurse starts to spend a budget. owner says in errors whose budget it is, as
// in "execution 42". clock tells the time; nil is [time.Now].
func NewPurse(owner string, b Budget, clock func() time.Time) *Purse {
	if clock == nil {
		clock = time.Now
	}
	return &Purse{owner: owner, limit: b, clock: clock, started: clock(), mu: new(sync.Mutex)}
}

// Child returns a purse with a budget of its own that also spends from p: it
// has what both leave. A zero Budget adds no limit and still counts. The child
// of a nil Purse is a purse by itself, or nil if b has no limits either.
func (p *Purse) Child(owner string, b Budget) *Purse {
	switch {
	case p != nil:
		return &Purse{owner: owner, limit: b, parent: p, clock: p.clock, started: p.clock(), mu: p.mu}
	case b == Budget{}:
		return nil
	}
	return NewPurse(owner, b, nil)
}

// Reserve sets want aside, here and in every purse above, or nowhere. It fails
// with budget_exceeded if one of them has less left or is past its time; the
// error says which limit of whose budget it was and what is left, and its Issue
// names the limit: /calls, /tokens, /cost or /time. A limit of something that is
// not wanted is not looked at; time always is.
func (p *Purse) Reserve(want Amount) (*Reservation, error) {
	if p == nil {
		return nil, nil
	}
	want = want.normal()
	if over := p.reserve(want, p.clock()); over != nil {
		return nil, over.fault()
	}
	return &Reservation{purse: p, want: want}, nil
}

func (p *Purse) reserve(want Amount, now time.Time) *shortage {
	p.mu.Lock()
	defer p.mu.Unlock()
	for q := p; q != nil; q = q.parent {
		if over := q.lacks(want, now); over != nil {
			return over
		}
	}
	for q := p; q != nil; q = q.parent {
		q.held = q.held.plus(want)
		q.open++
	}
	return nil
}

// lacks finds the limit that want would pass. The caller holds mu.
func (p *Purse) lacks(want Amount, now time.Time) *shortage {
	limit, used := p.limit, p.spent.plus(p.held)
	switch {
	case limit.Time != 0 && now.Sub(p.started) >= limit.Time:
		return &shortage{owner: p.owner, field: "time", limit: limit.Time.String(), used: now.Sub(p.started).String(), left: "nothing"}
	case limit.Calls != 0 && want.Calls > 0 && want.Calls > limit.Calls-min(used.Calls, limit.Calls):
		return p.whole("calls", limit.Calls, used.Calls, p.held.Calls, want.Calls)
	case limit.Tokens != 0 && want.Tokens > 0 && want.Tokens > limit.Tokens-min(used.Tokens, limit.Tokens):
		return p.whole("tokens", limit.Tokens, used.Tokens, p.held.Tokens, want.Tokens)
	case limit.Cost != 0 && want.Cost > 0 && !(used.Cost+want.Cost <= limit.Cost):
		return p.broken("cost", limit.Cost, used.Cost, p.held.Cost, want.Cost)
	}
	return nil
}

// Spend counts what was used without having been reserved: what a run had used
// before it was resumed, or what a model took beyond its reservation. It never
// fails; whoever reserves next does.
func (p *Purse) Spend(used Amount) {
	if p == nil {
		return
	}
	used = used.normal()
	p.mu.Lock()
	defer p.mu.Unlock()
	for q := p; q != nil; q = q.parent {
		q.spent = q.spent.plus(used)
	}
}

// Spent is what was settled and spent so far, by p and its descendants. What is
// only reserved is not in it.
func (p *Purse) Spent() Amount {
	if p == nil {
		return Amount{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spent
}

// Deadline is when the time of p or of a purse above it is up, if it ever is.
func (p *Purse) Deadline() (at time.Time, ok bool) {
	for q := p; q != nil; q = q.parent {
		if q.limit.Time == 0 {
			continue
		}
		if end := q.started.Add(max(q.limit.Time, 0)); !ok || end.Before(at) {
			at, ok = end, true
		}
	}
	return at, ok
}

// Reservation is an amount set aside. It must be settled or released once its
// use is known. A nil Reservation, as a nil Purse gives, is settled already.
type Reservation struct {
	purse *Purse
	want  Amount
	done  bool // guarded by the purse's mu
}

// Settle counts what was used, which may be more than was reserved, and gives
// back the rest. Only the first Settle or Release of a reservation counts.
func (r *Reservation) Settle(used Amount) {
	if r == nil {
		return
	}
	used = used.normal()
	r.purse.mu.Lock()
	defer r.purse.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	for q := r.purse; q != nil; q = q.parent {
		q.settle(r.want, used)
	}
}

// settle starts the sum anew when nothing is held, so that rounding of costs
// does not add up. The caller holds mu.
func (p *Purse) settle(want, used Amount) {
	p.spent = p.spent.plus(used)
	p.held = p.held.minus(want)
	if p.open--; p.open == 0 {
		p.held = Amount{}
	}
}

// Release gives everything back: nothing was used.
func (r *Reservation) Release() { r.Settle(Amount{}) }
