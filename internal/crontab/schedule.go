// Package crontab says when schedules in the language of cron are due, and wakes
// up for many of them with one timer.
//
//	s, err := crontab.Parse("30 2 * * *", false, newYork)
//	next, ok := s.Next(time.Now().Unix())
//
// # When the clock changes
//
// A schedule with fixed hours is about times of the local day, and each of them
// fires once: at the first instant at which the local clock has reached it. So a
// time that is skipped when clocks go forward, or with a whole day, fires at the
// first instant after the gap, together with whatever else is due then; one that
// comes twice fires the first time.
//
// A schedule with "*" or "/" in its hours (the descriptor @hourly has too) is
// about elapsed time: it fires whenever the local clock shows a time that fits,
// so not in a gap, and in both passes of an hour that comes twice. One with
// @every fires at the multiples of its duration since 1970 in UTC, so that a
// restart does not move it.
//
// # Units
//
// Instants are seconds since 1970 in UTC; those of a local clock are the seconds
// that UTC would have if it showed the same.
package crontab

import (
	"math"
	"math/bits"
	"time"
)

// Schedule is a parsed specification. The zero value never fires. It is not
// changed after Parse, and may be used concurrently.
type Schedule struct {
	// Bit n of a field says that it takes n.
	second, minute uint64
	hour, day      uint32
	month          uint16
	weekday        uint8
	elapsed        bool  // the hours follow elapsed time
	either         bool  // day or weekday suffices, since both are restricted
	every          int64 // seconds of @every; 0 if it is none
	loc            *time.Location
}

// Location is the zone whose clock counts. It is UTC for @every.
func (s *Schedule) Location() *time.Location {
	if s.loc == nil {
		return time.UTC
	}
	return s.loc
}

const (
	daySeconds = 24 * 60 * 60
	// horizon is how many days are looked at. The longest pause of a schedule
	// that fires at all is between two 29ths of February around a year that is no
	// leap year although it divides by four: eight years.
	horizon = 9 * 366
	// never is later than any instant.
	never = math.MaxInt64
)

// nextWall is the first time of the local clock after wall that fits, whether
// or not the clock ever shows it.
func (s *Schedule) nextWall(wall int64) (int64, bool) {
	wall++
	day, second := floor(wall, daySeconds)
	for end := day + horizon; day < end; day, second = day+1, 0 {
		year, month, date := time.Unix(day*daySeconds, 0).UTC().Date()
		if s.month>>month&1 == 0 {
			day = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).Unix()/daySeconds - 1
			continue
		}
		if !s.takesDay(day, date) {
			continue
		}
		if at, ok := s.inDay(int(second)); ok {
			return day*daySeconds + int64(at), true
		}
	}
	return never, false
}

// takesDay takes days since 1970, which was a Thursday, and the day of the month.
func (s *Schedule) takesDay(day int64, date int) bool {
	_, weekday := floor(day+4, 7)
	byDate, byWeekday := s.day>>date&1 != 0, s.weekday>>weekday&1 != 0
	if s.either {
		return byDate || byWeekday
	}
	return byDate && byWeekday
}

// inDay is the first second of a day, not before the given one, that fits.
func (s *Schedule) inDay(from int) (int, bool) {
	hour, minute, second := from/3600, from/60%60, from%60
	if s.hour>>hour&1 != 0 {
		if s.minute>>minute&1 != 0 {
			if at, ok := nextBit(s.second, second); ok {
				return hour*3600 + minute*60 + at, true
			}
		}
		if at, ok := nextBit(s.minute, minute+1); ok {
			return hour*3600 + at*60 + bits.TrailingZeros64(s.second), true
		}
	}
	if at, ok := nextBit(uint64(s.hour), hour+1); ok {
		return at*3600 + bits.TrailingZeros64(s.minute)*60 + bits.TrailingZeros64(s.second), true
	}
	return 0, false
}

// nextBit is the lowest bit set, not below from.
func nextBit(set uint64, from int) (int, bool) {
	rest := set >> from << from
	return bits.TrailingZeros64(rest), rest != 0
}

// floor divides by a positive number, rounding down.
func floor(n, by int64) (quotient, rest int64) {
	quotient, rest = n/by, n%by
	if rest < 0 {
		quotient, rest = quotient-1, rest+by
	}
	return quotient, rest
}
