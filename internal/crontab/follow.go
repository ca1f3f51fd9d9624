package crontab

import "time"

// Plan is a schedule and what is done about instants that were missed. It is
// not changed after it is in use.
type Plan struct {
	Schedule
	// Keep is how many missed instants are made up for, the newest ones. The
	// others are told as skipped.
	Keep int
}

// Due is what one schedule owes: first what was skipped, if anything, then
// instants in order.
type Due struct {
	Key     int     // of Add; 0 from a Follower
	Plan    *Plan   // whose ticks these are
	Skipped Skipped // what comes before Ticks
	Ticks   []int64 // ascending

	entry *entry
	to    position // where the schedule is once this is done
}

// Size is how many things it tells.
func (d *Due) Size() int {
	if d.Skipped.Count > 0 {
		return len(d.Ticks) + 1
	}
	return len(d.Ticks)
}

// Skipped are instants that are not made up for.
type Skipped struct {
	Count       int   // 0 is none; counted up to MaxCount
	First, Last int64 // instants of the schedule
}

// MaxCount bounds how far skipped instants are counted, which takes a while for
// years of seconds.
const MaxCount = 1_000_000

const (
	// recheck is how often the clock is looked at while nothing is due. Timers
	// run on a monotonic clock, which stands still while a machine sleeps and does
	// not notice that somebody sets the time. An instant is late by as much at most.
	recheck = time.Minute
	// lapse is how long nobody may have looked, in seconds, before what came due
	// meanwhile counts as missed: twice as long as a healthy process takes.
	lapse = 120
)

// watch notices that nobody looked for a while: the machine slept, the clock was
// put forward, or what takes the instants stood still.
type watch struct {
	seen int64 // when somebody looked last
	live int64 // what was due until then was missed
}

func (w *watch) look() (now int64) {
	now = time.Now().Unix()
	if now-w.seen > lapse {
		w.live = now
	}
	w.seen = now
	return now
}

// untilDue is how long to wait before looking again.
func untilDue(next int64) time.Duration {
	// Without the monotonic reading, so that a clock that was set counts.
	now := time.Now().Round(0)
	if next-now.Unix() > int64(recheck/time.Second) {
		return recheck
	}
	return max(0, time.Unix(next, 0).Sub(now))
}

// position is how far a schedule has come.
type position struct {
	next  int64 // the first instant that is not done; never if there is none
	live  int64 // what was due until here was missed
	fresh bool  // it is not yet decided what of that is skipped
}

// begin is the position of who begins after an instant, at live.
func (p *Plan) begin(after, live int64) position {
	next, _ := p.Next(after)
	return position{next: next, live: live, fresh: true}
}

// due tells what is owed by now, at most most things, and adds its instants to
// ticks. What was due by live is missed.
func (p *Plan) due(from position, now, live int64, most int, ticks []int64) (Due, []int64) {
	d := Due{Plan: p, to: from}
	if from.next > now {
		return d, ticks
	}
	if live > from.live {
		d.to.live, d.to.fresh = live, true
	}
	if d.to.fresh {
		d.to.fresh = false
		if d.Skipped = p.skipped(from.next, min(d.to.live, now)); d.Skipped.Count > 0 {
			d.to.next, _ = p.Next(d.Skipped.Last)
			most--
		}
	}
	begin := len(ticks)
	for ; most > 0 && d.to.next <= now; most-- {
		ticks = append(ticks, d.to.next)
		d.to.next, _ = p.Next(d.to.next)
	}
	d.Ticks = ticks[begin:len(ticks):len(ticks)]
	return d, ticks
}

// skipped tells which of the instants from one of them up to live are not among
// the newest that are kept.
func (p *Plan) skipped(first, live int64) Skipped {
	if first > live {
		return Skipped{}
	}
	newest := p.newest(first, live)
	if len(newest) <= p.Keep {
		return Skipped{}
	}
	s := Skipped{First: first, Last: newest[0]}
	for at := first; at <= s.Last && s.Count < MaxCount; s.Count++ {
		at, _ = p.Next(at)
	}
	return s
}

// newest are the last instants up to live, one more than are kept, but not any
// before first. It looks back further and further, since there is no way to go
// from one instant to the one before.
func (p *Plan) newest(first, live int64) []int64 {
	const begin, growth = 60 * 60, 4
	for back := int64(begin); ; back *= growth {
		after := max(first-1, live-back)
		var found []int64
		for at, ok := p.Next(after); ok && at <= live; at, ok = p.Next(at) {
			found = append(found, at)
		}
		if enough := len(found) - (p.Keep + 1); enough >= 0 {
			return found[enough:]
		}
		if after == first-1 {
			return found
		}
	}
}

// Follower follows one plan for one reader. It is not for concurrent use.
type Follower struct {
	plan *Plan
	at   position
	watch
}

// Follow begins after an instant. What is due by now already is missed.
func Follow(p *Plan, after int64) *Follower {
	now := time.Now().Unix()
	return &Follower{plan: p, at: p.begin(after, now), watch: watch{seen: now}}
}

// Due is what is owed now, at most most things.
func (f *Follower) Due(most int) Due {
	now := f.look()
	d, _ := f.plan.due(f.at, now, f.live, most, nil)
	return d
}

// Done says that all of d was taken.
func (f *Follower) Done(d Due) { f.at = d.to }

// Wait is how long to wait before asking for what is due again.
func (f *Follower) Wait() time.Duration { return untilDue(f.at.next) }
