package crontab

import (
	"fmt"
	"time"
)

// Fingerprint is the same for schedules that fire at the same instants because
// they say the same: the fields and the zone. Zones are told apart by name, and
// by their offset at one instant, since anybody may name a fixed one.
func (s *Schedule) Fingerprint() string {
	_, offset := time.Unix(0, 0).In(s.Location()).Zone()
	return fmt.Sprintf("%x %x %x %x %x %x %t %t %d %s %d", s.second, s.minute, s.hour, s.day, s.month, s.weekday,
		s.elapsed, s.either, s.every, s.Location(), offset)
}

// Same tells whether both plans fire alike and catch up alike.
func (p *Plan) Same(q *Plan) bool {
	return p.Keep == q.Keep && p.Fingerprint() == q.Fingerprint()
}
