package gates

import (
	"math"
	"strconv"

	"github.com/bridle-dev/bridle/fault"
)

// shortage is a limit that something would pass.
type shortage struct {
	owner, field            string
	limit, used, held, left string
	want                    string // "" for time, which nobody asks for
}

func (p *Purse) whole(field string, limit, used, held, want int64) *shortage {
	s := &shortage{owner: p.owner, field: field,
		limit: strconv.FormatInt(limit, 10), used: strconv.FormatInt(used, 10),
		left: strconv.FormatInt(max(limit, 0)-min(used, max(limit, 0)), 10), want: strconv.FormatInt(want, 10)}
	if held > 0 {
		s.held = strconv.FormatInt(held, 10)
	}
	return s
}

func (p *Purse) broken(field string, limit, used, held, want float64) *shortage {
	s := &shortage{owner: p.owner, field: field,
		limit: decimal(limit), used: decimal(used), left: decimal(max(0, limit-used)), want: decimal(want)}
	if math.IsNaN(limit) {
		s.left = "nothing"
	}
	if held > 0 {
		s.held = decimal(held)
	}
	return s
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }

// fault says whose limit it is, what is left of it, and what to change.
func (s *shortage) fault() error {
	detail := "limit " + s.limit + ", used " + s.used
	if s.held != "" {
		detail += " with " + s.held + " of them still reserved"
	}
	detail += ", left " + s.left
	if s.want != "" {
		detail += ", needed " + s.want
	}
	err := fault.New(fault.BudgetExceeded, "the budget of %s does not allow it", whose(s.owner))
	err.Issues = []fault.Issue{{Path: "/" + s.field, Message: detail}}
	return err.WithHint("Nothing was sent. Raise the limit for %s, or finish with what there is.", s.field)
}

func whose(owner string) string {
	if owner == "" {
		return "the run"
	}
	return fault.Quote(owner)
}
