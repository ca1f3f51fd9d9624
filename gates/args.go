package gates

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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
	shown, issues := f.misfits(ctx)
	if len(issues) > 0 && !(shown != nil && f.repair(ctx, shown)) {
		return argsInvalid(issues...)
	}
	return nil
}

// misfits says what is wrong with the arguments, and returns them as their
// schema sees them, or nil if it does not get to see them.
func (f *flight) misfits(ctx context.Context) (shown any, issues []fault.Issue) {
	shown, issues = f.findSpecials(ctx)
	if len(issues) > 0 {
		return nil, issues
	}
	return shown, append(f.checkMarks(), f.unspecial(f.entry.args.check(shown))...)
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
func (f *flight) repair(ctx context.Context, shown any) bool {
	if !f.target.Repair || f.call.Source != SourceModel {
		return false
	}
	args, tree, specials := f.call.Args, f.tree, slices.Clone(f.specials)
	f.tree, f.out.Repaired = f.entry.args.repair(shown, tree)
	if len(f.out.Repaired) > 0 {
		f.call.Args = schema.Encode(f.tree)
		if _, issues := f.misfits(ctx); len(issues) == 0 {
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
