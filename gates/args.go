package gates

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
)

// checkArgs brings the arguments into canonical form, which is what hooks see
// and what is sent byte for byte, and checks them against the schema. Nothing
// is filled in, converted or dropped.
func checkArgs(_ context.Context, f *flight) error {
	raw := f.call.Args
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if limit := f.chain.maxArgs; len(raw) > limit {
		return argsInvalid(fault.Issue{Message: "has " + strconv.Itoa(len(raw)) + " bytes, more than " + strconv.Itoa(limit)})
	}
	canonical, tree, issue := schema.Canonical(raw, maxArgsDepth)
	if issue != nil {
		return argsInvalid(*issue)
	}
	if _, ok := tree.(map[string]any); !ok {
		return argsInvalid(fault.Issue{Message: "is not an object"})
	}
	if err := f.entry.args.Usable(); err != nil {
		return fault.New(fault.ArgsInvalid, "arguments cannot be checked: the schema %w", err).
			WithHint("Whoever serves the operation must mend its schema; until then every call is refused.")
	}
	if issues := f.entry.args.check(tree); len(issues) > 0 {
		return argsInvalid(issues...)
	}
	f.call.Args = canonical
	return nil
}

func argsInvalid(issues ...fault.Issue) error {
	return &fault.Error{Code: fault.ArgsInvalid, Issues: issues, Err: errors.New("arguments do not fit")}
}
