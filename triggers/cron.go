package triggers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/crontab"
	"github.com/bridle-dev/bridle/provider"
)

// CronOptions say how a schedule is read and what is done about missed ticks.
type CronOptions struct {
	// Location is the zone whose clock counts. Nil is UTC, so that a schedule
	// means the same on every machine; give time.Local if the machine's own zone
	// is meant. Schedules with @every do not depend on it.
	Location *time.Location
	// Seconds says that the schedule has six fields, the first of which is the
	// second. Without it there are five, and ticks come at the full minute.
	Seconds bool
	// CatchUp says what is done about ticks that were missed.
	CatchUp CatchUp
	// CatchUpMost is how many missed ticks CatchUpAll makes up for, the newest
	// ones. 0 is 1,000; it is at most 100,000.
	CatchUpMost int
}

// CatchUp says what is done about ticks that were missed: those that came due
// after the stored cursor while nothing listened, while the machine slept or its
// clock was put forward, or while whatever stores the ticks stood still for more
// than two minutes. What is not made up for is told by one event of the kind
// provider.EventGap before the next tick, with [Skipped] as its payload.
type CatchUp string

// The ways to catch up.
const (
	CatchUpAll  CatchUp = ""     // every missed tick, up to CronOptions.CatchUpMost
	CatchUpLast CatchUp = "last" // only the newest missed tick
	CatchUpNone CatchUp = "none" // no missed tick
)

const (
	catchUpDefault = 1_000
	// catchUpLimit keeps what is made up for at a time in memory and in reason.
	catchUpLimit = 100_000
)

// Cron is a provider whose only event is [Tick], once for each instant that spec
// names. spec has the five fields minute, hour, day of the month, month and day
// of the week (0 is Sunday), as in "30 8 * * mon-fri", or is a descriptor:
// @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration of whole
// seconds. If both days are restricted, either suffices.
//
// # When the clock changes
//
// With fixed hours each local time fires once: one that is skipped when clocks go
// forward fires at the first instant after the gap, one that comes twice fires
// the first time. With "*" or "/" among the hours, as in "*/15 * * * *" and
// @hourly, ticks follow elapsed time: they come whenever the local clock shows a
// time that fits, so also in the second pass of an hour, and not in a gap.
// Ticks of @every are the multiples of the duration since 1970 in UTC, wherever
// the process was started.
//
// # Cursors
//
// An event's id and cursor are its instant in UTC (RFC 3339). A subscription
// without a cursor starts now, and says so in its Cursor: who stores that before
// the first tick misses none. No instant comes twice, also not when the
// machine's clock is put back. A clock that is put forward, and a machine that
// slept, are noticed within a minute.
//
// Mistakes are CONNECTION_INVALID and found by Check, which a harness asks
// before it connects: a spec that cannot be read or never fires (30 February),
// one that brings its own zone (CRON_TZ), options out of range. Nil options are
// the defaults. Providers are equal if their ticks and ways to catch up are.
func Cron(spec string, opts *CronOptions) provider.Provider {
	if opts == nil {
		opts = &CronOptions{}
	}
	s, err := crontab.Parse(spec, opts.Seconds, opts.Location)
	p := &cronProvider{spec: spec, plan: crontab.Plan{Schedule: s, Keep: opts.keep()}}
	p.mistake = checkCron(spec, opts, err)
	return p
}

// cronProvider is what Cron makes. There may be many, so it holds little.
type cronProvider struct {
	spec    string
	plan    crontab.Plan
	mistake error
}

// keep is how many missed ticks are made up for.
func (o *CronOptions) keep() int {
	switch {
	case o.CatchUp == CatchUpNone:
		return 0
	case o.CatchUp == CatchUpLast:
		return 1
	case o.CatchUpMost == 0:
		return catchUpDefault
	}
	return o.CatchUpMost
}

// checkCron tells all mistakes at once.
func checkCron(spec string, o *CronOptions, parse error) error {
	e := fault.New(fault.ConnectionInvalid, "cron schedule %s", fault.Quote(spec))
	var remedies []string
	add := func(path, reason, remedy string) {
		e.Issues = append(e.Issues, fault.Issue{Path: path, Message: reason})
		remedies = append(remedies, remedy)
	}
	if m, ok := errors.AsType[*crontab.Mistake](parse); ok {
		add(strings.TrimSuffix("/spec/"+m.Field, "/"), m.Reason, m.Remedy)
	}
	switch o.CatchUp {
	case CatchUpAll, CatchUpLast, CatchUpNone:
	default:
		add("/CatchUp", "is the unknown "+fault.Quote(string(o.CatchUp)), "Use CatchUpAll, CatchUpLast or CatchUpNone.")
	}
	if o.CatchUpMost < 0 || o.CatchUpMost > catchUpLimit {
		add("/CatchUpMost", fmt.Sprintf("is %d", o.CatchUpMost), fmt.Sprintf("Use 1 to %d, or 0 for %d.", catchUpLimit, catchUpDefault))
	}
	if len(e.Issues) == 0 {
		return nil
	}
	return e.WithHint("%s", strings.Join(remedies, " "))
}

// Check tells mistakes in the schedule and its options.
func (p *cronProvider) Check() error { return p.mistake }

// Equal tells whether other ticks at the same instants and catches up alike.
func (p *cronProvider) Equal(other provider.Provider) bool {
	o, ok := other.(*cronProvider)
	if !ok || p.mistake != nil || o.mistake != nil {
		return ok && p == o
	}
	return p.plan.Same(&o.plan)
}

// Connect makes a connection, which needs nobody else.
func (p *cronProvider) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	if p.mistake != nil {
		return nil, p.mistake
	}
	if ctx.Err() != nil {
		return nil, provider.NotSent(context.Cause(ctx))
	}
	return []provider.Conn{newCronConn(p, opts.Normal())}, nil
}

// identity is the same for equal schedules, on every machine.
func (p *cronProvider) identity() provider.Identity {
	sum := sha256.Sum256([]byte(p.plan.Fingerprint()))
	return provider.Identity{Surface: "cron", Instance: "cron-" + hex.EncodeToString(sum[:8])}
}
