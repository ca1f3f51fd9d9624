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
	if f.target.Repair && f.call.Source == SourceModel {
		f.repair()
	}
	shown, issues := f.findSpecials(ctx)
	if len(issues) == 0 {
		issues = append(f.checkMarks(), f.unspecial(f.entry.args.check(shown))...)
	}
	if len(issues) > 0 {
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

// repair mends the arguments of a model by the schema and notes where.
func (f *flight) repair() {
	tree, mended := f.entry.args.repair(f.tree)
	if len(mended) > 0 {
		f.tree, f.call.Args = tree, schema.Encode(tree)
		f.out.Repaired = mended
	}
}

func argsInvalid(issues ...fault.Issue) error {
	return &fault.Error{Code: fault.ArgsInvalid, Issues: issues, Err: errors.New("arguments do not fit")}
}

func tooLong(size, limit int) *fault.Issue {
	return &fault.Issue{Message: "has " + strconv.Itoa(size) + " bytes, more than " + strconv.Itoa(limit)}
}
