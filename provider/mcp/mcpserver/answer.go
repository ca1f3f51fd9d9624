package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

// Codes of refusals that the kit makes itself; they begin the text.
const (
	codeArgs   = "invalid_args"
	codeReused = "key_reused"
	codeFull   = "keys_full"
	codeStore  = "store_failed"
)

// outcome is a result as it is kept and sent.
type outcome struct {
	Value json.RawMessage `json:"value"`
	Text  string          `json:"text,omitempty"` // for people, if it is not Value
}

// answer is how a call ended: with an outcome, a refusal or in doubt.
type answer struct {
	outcome *outcome
	refusal *refusal
	unknown string // why nobody knows what happened
}

// refusal says that nothing happened.
type refusal struct {
	text    string
	guarded map[string]any // target and reason, if an approval lifts it
}

func refuse(code, format string, args ...any) answer {
	return answer{refusal: &refusal{text: code + ": " + fmt.Sprintf(format, args...)}}
}

// guardedError is Guarded, with its parts.
type guardedError struct {
	error
	target, reason string
}

// Unwrap returns the error as the contract of providers has it.
func (e *guardedError) Unwrap() error { return e.error }

// Guarded is what a handler returns for a target that needs an approval first,
// having done nothing yet. Clients that are hosts have it approved and call
// again with Approved; others see the reason.
func Guarded(target, reason string) error {
	return &guardedError{provider.Guarded(target, reason), target, reason}
}

// failed is the answer to a handler's error. Of a once operation only errors
// that say so mean that nothing happened: any other may have come after the
// effect, and a key that is forgotten then acts twice.
func failed(op *operation, err error) answer {
	if g, ok := errors.AsType[*guardedError](err); ok {
		return answer{refusal: &refusal{text: g.Error(), guarded: guarded(g.target, g.reason)}}
	}
	switch fe, _ := errors.AsType[*fault.Error](err); {
	case fe == nil:
	case fe.Code == fault.Guarded:
		return answer{refusal: &refusal{text: fe.Error(), guarded: guarded(fe.PeerCode, text(fe))}}
	case fe.Code == fault.OutcomeUnknown:
		return answer{unknown: text(fe)}
	case fe.Code == fault.OpFailed && fe.PeerCode != "":
		return answer{refusal: &refusal{text: fe.PeerCode + ": " + text(fe)}}
	case fe.Code == fault.OpFailed, errors.Is(fe, fault.NotSent):
		return answer{refusal: &refusal{text: text(fe)}}
	}
	if op.once {
		return answer{unknown: err.Error()}
	}
	return answer{refusal: &refusal{text: err.Error()}}
}

func guarded(target, reason string) map[string]any {
	return map[string]any{"target": target, "reason": reason}
}

// text is what an error says without its code.
func text(fe *fault.Error) string {
	if fe.Err == nil {
		return string(fe.Code)
	}
	return fe.Err.Error()
}

// interrupted is the answer to who did not wait for the end.
func interrupted(ctx context.Context) answer {
	return answer{unknown: fmt.Sprint("the call was given up: ", context.Cause(ctx))}
}

// encode makes an outcome of what a handler returned. Its error says that it
// does not fit the operation's schema.
func (op *operation) encode(result any) (*outcome, error) {
	value, err := json.Marshal(result)
	if err != nil {
		return nil, fault.New(fault.ResultInvalid, "the result of %s is not JSON: %w", op.name, err)
	}
	tree, issue := schema.Parse(value, maxDepth)
	if issue != nil {
		e := fault.New(fault.ResultInvalid, "the result of %s cannot be read", op.name)
		e.Issues = []fault.Issue{*issue}
		return nil, e
	}
	if op.result != nil {
		if issues := op.result.Validate(tree); len(issues) > 0 {
			e := fault.New(fault.ResultInvalid, "the result of %s does not fit its schema", op.name)
			e.Issues = issues
			return nil, e
		}
	}
	o := &outcome{Value: value}
	if s, ok := result.(fmt.Stringer); ok {
		o.Text = s.String()
	}
	return o, nil
}

// result is an answer as the SDK sends it, in memory of its own. A failure is
// never empty, and never looks like a result.
func (k *Kit) result(a answer) *sdk.CallToolResult {
	if o := a.outcome; o != nil {
		shown := Cut(cmp.Or(o.Text, string(o.Value)), k.opts.MaxText)
		return &sdk.CallToolResult{
			Content:           []sdk.Content{&sdk.TextContent{Text: shown}},
			StructuredContent: json.RawMessage(append([]byte(nil), o.Value...)),
		}
	}
	said, meta := "outcome unknown: "+a.unknown, sdk.Meta{metaUnknown: map[string]any{"reason": a.unknown}}
	if r := a.refusal; r != nil {
		said, meta = cmp.Or(r.text, "the operation failed without saying why"), nil
		if r.guarded != nil {
			meta = sdk.Meta{metaGuarded: r.guarded}
		}
	}
	return &sdk.CallToolResult{
		Meta: meta, IsError: true,
		Content: []sdk.Content{&sdk.TextContent{Text: Cut(said, k.opts.MaxText)}},
	}
}
