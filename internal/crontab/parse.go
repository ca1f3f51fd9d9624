package crontab

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/bridle-dev/bridle/fault"
)

// Mistake is what is wrong with a specification.
type Mistake struct {
	Field  string // "second" to "weekday"; "" is the whole
	Reason string
	Remedy string // a full sentence
}

// Error is the reason, with the field it is about.
func (m *Mistake) Error() string {
	if m.Field == "" {
		return m.Reason
	}
	return m.Field + ": " + m.Reason
}

// field is one place of a specification, with the option that makes the parser
// read it alone: its errors then are about that field, which they do not name.
type field struct {
	name   string
	option cron.ParseOption
	remedy string
	set    func(*Schedule, *cron.SpecSchedule)
}

func fields() []field {
	return []field{
		{"second", cron.Second, "Use numbers from 0 to 59.",
			func(s *Schedule, p *cron.SpecSchedule) { s.second = plain(p.Second) }},
		{"minute", cron.Minute, "Use numbers from 0 to 59.",
			func(s *Schedule, p *cron.SpecSchedule) { s.minute = plain(p.Minute) }},
		{"hour", cron.Hour, "Use numbers from 0 to 23.",
			func(s *Schedule, p *cron.SpecSchedule) { s.hour = uint32(plain(p.Hour)) }},
		{"day", cron.Dom, "Use numbers from 1 to 31.",
			func(s *Schedule, p *cron.SpecSchedule) { s.day = uint32(plain(p.Dom)) }},
		{"month", cron.Month, "Use numbers from 1 to 12, or names such as jan.",
			func(s *Schedule, p *cron.SpecSchedule) { s.month = uint16(plain(p.Month)) }},
		{"weekday", cron.Dow, "Use numbers from 0, which is Sunday, to 6, or names such as mon.",
			func(s *Schedule, p *cron.SpecSchedule) { s.weekday = uint8(plain(p.Dow)) }},
	}
}

// star is the parser's mark for a field that takes everything.
const star = 1 << 63

func plain(bits uint64) uint64 { return bits &^ star }

// Parse reads a specification: five fields (minute, hour, day, month, weekday),
// or six with the second first if seconds is set; or a descriptor such as
// @daily, or @every with a duration. Times are those of loc, nil is UTC. An
// error is a *Mistake.
//
// It is stricter than the parser it uses, which takes "*-5" for "*", "," for
// never and "1," for "1", and panics at "TZ=x".
func Parse(spec string, seconds bool, loc *time.Location) (Schedule, error) {
	if loc == nil {
		loc = time.UTC
	}
	spec = strings.TrimSpace(spec)
	switch {
	case spec == "":
		return Schedule{}, &Mistake{Reason: "is empty", Remedy: `Write a schedule such as "0 8 * * *" or @daily.`}
	case strings.HasPrefix(spec, "TZ="), strings.HasPrefix(spec, "CRON_TZ="):
		return Schedule{}, &Mistake{Reason: "names a time zone", Remedy: "Give the zone as an option, and leave the prefix out."}
	case strings.HasPrefix(spec, every):
		return parseEvery(spec)
	case strings.HasPrefix(spec, "@"):
		return parseDescriptor(spec, loc)
	}
	s, err := parseFields(strings.Fields(spec), seconds, loc)
	if err != nil {
		return Schedule{}, err
	}
	if _, ok := s.nextWall(0); !ok {
		return Schedule{}, &Mistake{Field: "day", Reason: "none of the months has such a day, so it never fires",
			Remedy: "Choose a day that the month has."}
	}
	return s, nil
}

const every = "@every "

func parseEvery(spec string) (Schedule, error) {
	d, err := time.ParseDuration(strings.TrimSpace(strings.TrimPrefix(spec, every)))
	if err != nil || d < time.Second || d%time.Second != 0 {
		return Schedule{}, &Mistake{Reason: "wants a duration of whole seconds, at least one, not " + fault.Quote(spec),
			Remedy: "Write the duration as in @every 1h30m."}
	}
	return Schedule{every: int64(d / time.Second), loc: time.UTC}, nil
}

func parseDescriptor(spec string, loc *time.Location) (Schedule, error) {
	parsed, err := cron.NewParser(cron.Descriptor).Parse(spec)
	p, ok := parsed.(*cron.SpecSchedule)
	if err != nil || !ok {
		return Schedule{}, &Mistake{Reason: "no such descriptor: " + fault.Quote(spec),
			Remedy: "Use @yearly, @monthly, @weekly, @daily, @hourly or @every with a duration."}
	}
	s := Schedule{loc: loc, elapsed: p.Hour&star != 0}
	for _, f := range fields() {
		f.set(&s, p)
	}
	return s, nil
}

func parseFields(texts []string, seconds bool, loc *time.Location) (Schedule, error) {
	all := fields()
	if !seconds {
		all = all[1:]
	}
	if len(texts) != len(all) {
		return Schedule{}, wrongCount(len(texts), len(all))
	}
	s := Schedule{loc: loc, second: 1}
	days := 0
	for i, f := range all {
		p, err := parseField(f, texts[i])
		if err != nil {
			return Schedule{}, err
		}
		f.set(&s, p)
		if f.option == cron.Hour {
			s.elapsed = strings.ContainsAny(texts[i], "*?/")
		}
		if (f.option == cron.Dom || f.option == cron.Dow) && (p.Dom|p.Dow)&star == 0 {
			days++
		}
	}
	s.either = days == 2
	return s, nil
}

func wrongCount(got, want int) error {
	remedy := "Write minute, hour, day, month and weekday."
	switch {
	case want == 6:
		remedy = "Write second, minute, hour, day, month and weekday."
	case got == 6:
		remedy = "Set the option Seconds if the first field is the second."
	}
	return &Mistake{Reason: fmt.Sprintf("has %d fields, want %d", got, want), Remedy: remedy}
}

// parseField reads one field, and refuses what the parser would take for
// something else.
func parseField(f field, text string) (*cron.SpecSchedule, error) {
	mistake := func(reason string) error {
		return &Mistake{Field: f.name, Reason: reason, Remedy: f.remedy}
	}
	if strings.ContainsFunc(text, foreign) {
		return nil, mistake("unexpected character in " + fault.Quote(text))
	}
	for part := range strings.SplitSeq(text, ",") {
		head, _, _ := strings.Cut(part, "/")
		if part == "" || len(head) > 1 && strings.ContainsAny(head, "*?") {
			return nil, mistake("malformed list or range: " + fault.Quote(text))
		}
	}
	parsed, err := cron.NewParser(f.option).Parse(text)
	p, ok := parsed.(*cron.SpecSchedule)
	if err != nil || !ok {
		return nil, mistake(fmt.Sprintf("%s is not understood: %v", fault.Quote(text), err))
	}
	// The fields that were not given are the parser's defaults, stars among them.
	if f.option == cron.Dom {
		p.Dow = 0
	}
	if f.option == cron.Dow {
		p.Dom = 0
	}
	return p, nil
}

// foreign tells characters that no field has.
func foreign(r rune) bool {
	return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("*?/,-", r))
}
