package mcpserver

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/internal/schema"
)

// serve answers one call of op.
func (k *Kit) serve(ctx context.Context, op *operation, req *sdk.CallToolRequest) *sdk.CallToolResult {
	args, wrong := op.read(req.Params.Arguments)
	if args == nil {
		return k.result(wrong)
	}
	c := &Call{kit: k, op: op, req: req}
	if key := c.Key(); op.once && key != "" {
		c.entry = newEntry(op, c.user(), key, args)
		return k.result(k.once(ctx, c, args))
	}
	return k.result(op.perform(ctx, c, args))
}

// read returns the arguments in canonical form; nil and a refusal if they do
// not fit.
func (op *operation) read(raw json.RawMessage) (json.RawMessage, answer) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	args, tree, issue := schema.Canonical(raw, maxDepth)
	if issue != nil {
		return nil, refuse(codeArgs, "%s %s", issue.Path, issue.Message)
	}
	if issues := op.args.Validate(tree); len(issues) > 0 {
		said := ""
		for _, i := range issues {
			said += "\n" + i.Path + " " + i.Message
		}
		return nil, refuse(codeArgs, "the arguments of %s do not fit:%s", op.name, said)
	}
	return args, answer{}
}

// perform runs the handler. What Commit recorded is the outcome, whatever the
// handler made of it.
func (op *operation) perform(ctx context.Context, c *Call, args json.RawMessage) answer {
	result, err := op.run(ctx, c, args)
	switch {
	case c.committed != nil:
		return answer{outcome: c.committed}
	case err != nil:
		return failed(op, err)
	}
	o, err := op.encode(result)
	if err == nil {
		return answer{outcome: o}
	}
	if op.effects {
		return answer{unknown: "it was carried out, but " + err.Error()}
	}
	return answer{refusal: &refusal{text: err.Error()}}
}
