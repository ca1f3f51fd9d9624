package crontab

import (
	"math"
	"time"
)

// Next is the first instant after the given one at which s fires; false if
// there is none within nine years.
func (s *Schedule) Next(after int64) (int64, bool) {
	switch {
	case s.every > 0:
		n, _ := floor(after, s.every)
		return (n + 1) * s.every, true
	case s.elapsed:
		return s.nextShown(after)
	}
	return s.nextReached(after)
}

// nextReached is Next for fixed hours. What the clock has shown before, it has
// reached: the times of a second pass are not after it.
func (s *Schedule) nextReached(after int64) (int64, bool) {
	p := s.period(after)
	wall, ok := s.nextWall(s.reached(p, after))
	if !ok {
		return never, false
	}
	for {
		if at := max(p.start, wall-p.offset); at < p.end {
			return at, true
		}
		p = s.period(p.end)
	}
}

// reached is the latest time that the clock has shown until now.
func (s *Schedule) reached(p period, now int64) int64 {
	latest := now + p.offset
	for p.start > now-maxShift {
		end := p.start - 1
		p = s.period(end)
		latest = max(latest, end+p.offset)
	}
	return latest
}

// maxShift is more than any clock was ever put back: crossing the date line
// makes a whole day.
const maxShift = 2 * daySeconds

// nextShown is Next for elapsed time.
func (s *Schedule) nextShown(after int64) (int64, bool) {
	from := after
	for p := s.period(after); from < after+horizon*daySeconds; p = s.period(p.end) {
		from = max(from, p.start-1)
		wall, ok := s.nextWall(from + p.offset)
		if at := wall - p.offset; ok && at < p.end {
			return at, true
		}
		if p.end == never {
			break
		}
	}
	return never, false
}

// period is a time without a change of the clock: instants from start, before
// end, at which the local clock is offset ahead of UTC.
type period struct{ start, end, offset int64 }

func (s *Schedule) period(at int64) period {
	t := time.Unix(at, 0).In(s.Location())
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	p := period{start: math.MinInt64 / 2, end: never, offset: int64(offset)}
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	if p.end <= at {
		// In years for which the zone has only a rule, ZoneBounds lets them end after
		// 365 days, also on the last day of a leap year (Go 1.26).
		hours, _ := floor(at, 60*60)
		p.end = (hours + 1) * 60 * 60
	}
	return p
}
