package gates

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
)

// checkArgs brings the arguments into canonical form, which is what hooks and
// approvers see, and checks them against the schema. Nothing is filled in,
// converted or dropped, unless the host lets arguments of models be mended. A
// reference counts as its id, a secret as any string.
func checkArgs(ctx context.Context, f *flight) error {
	if issue := f.readArgs(); issue != nil {
		return argsInvalid(*issue)
	}
	if err := f.entry.args.Usable(); err != nil {
		return fault.New(fault.ArgsInvalid, "arguments cannot be checked: the schema %w", err).
			WithHint("Whoever serves the operation must mend its schema; until then every call is refused.")
	}
	err := f.fit(ctx)
	if err != nil && f.repair(ctx) {
		return nil
	}
	return err
}

// fit holds the arguments against the schema, as it is to see them: f.shown is
// nil if they do not get as far.
func (f *flight) fit(ctx context.Context) error {
	if err := f.findSpecials(ctx); err != nil {
		return err
	}
	issues, fits := f.entry.args.checkOpen(f.shown, f.unseen())
	f.fits = fits
	if issues = append(f.checkMarks(), issues...); len(issues) > 0 {
		return argsInvalid(issues...)
	}
	return nil
}

// readArgs reads the arguments into f.tree and writes them in canonical form.
func (f *flight) readArgs() *fault.Issue {
	raw := f.call.Args
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if limit := f.chain.maxArgs; len(raw) > limit {
		return tooLong(len(raw), limit)
	}
	canonical, tree, issue := schema.Canonical(raw, maxArgsDepth)
	if issue != nil {
		return issue
	}
	if _, ok := tree.(map[string]any); !ok {
		return &fault.Issue{Message: "is not an object"}
	}
	f.call.Args, f.tree = canonical, tree
	return nil
}

// repair mends arguments of a model that do not fit, if the host wants that and
// the whole fits then, and notes where. What stands for something else stays
// and is told apart from data as ever, also where it comes out of a string.
func (f *flight) repair(ctx context.Context) bool {
	if !f.target.Repair || f.call.Source != SourceModel || f.shown == nil {
		return false
	}
	args, tree, specials := f.call.Args, f.tree, f.specials
	f.tree, f.out.Repaired = f.entry.args.repair(f.shown, tree)
	if len(f.out.Repaired) > 0 {
		f.call.Args = schema.Encode(f.tree)
		if f.readArgs() == nil && f.fit(ctx) == nil {
			return true
		}
	}
	f.call.Args, f.tree, f.specials, f.out.Repaired = args, tree, specials, nil
	return false
}

func argsInvalid(issues ...fault.Issue) error {
	return &fault.Error{Code: fault.ArgsInvalid, Issues: issues, Err: errors.New("arguments do not fit")}
}

func tooLong(size, limit int) *fault.Issue {
	return &fault.Issue{Message: "has " + strconv.Itoa(size) + " bytes, more than " + strconv.Itoa(limit)}
}
