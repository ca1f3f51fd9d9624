package inmemory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Operation is one operation of a double: its description, and what it does.
// Func and Reply make most of them; a literal with Run serves raw JSON.
type Operation struct {
	// Operation is what the manifest says. Its Name is ignored: the key in
	// Options.Operations is the name. With facts that say Once, a repeated key
	// returns the first outcome; with Long, it runs as a task.
	provider.Operation
	// Run performs the operation. It runs in a goroutine of its own with the
	// call's context, which also ends when the connection does; one that
	// ignores it is left behind 100 ms after the caller gave up. For errors see
	// the package comment. A panic reaches whoever called.
	Run func(ctx context.Context, c *Call) (*provider.CallResult, error)

	mistake error // what was wrong with Func's types, for Check
}

// With returns the operation with these facts.
func (o Operation) With(facts provider.Facts) Operation {
	o.Facts = facts
	return o
}

// Describe returns the operation with this description.
func (o Operation) Describe(text string) Operation {
	o.Description = text
	return o
}

// Result is what a function returns to give content for people besides, or
// instead of, a structured value. A nil Value is none.
type Result struct {
	Value   any
	Content []provider.Content
}

// Func makes an operation of a typed function. The schemas of Args and Result
// are reflected (JSON Schema 2020-12, unknown properties refused); an interface
// or json.RawMessage takes anything, a Result of type [Result] is unchecked.
// Args must be an object in JSON. Arguments that do not decode are refused with
// the peer code "invalid_args". A nil slice in a result is null in JSON, which
// its own schema refuses: return an empty one.
func Func[Args, Res any](f func(ctx context.Context, c *Call, args Args) (Res, error)) Operation {
	var op Operation
	var argsErr, resultErr error
	op.Args, argsErr = schemaOf[Args]()
	op.Result, resultErr = schemaOf[Res]()
	switch {
	case argsErr != nil:
		op.mistake = fmt.Errorf("arguments: %w", argsErr)
	case resultErr != nil:
		op.mistake = fmt.Errorf("result: %w", resultErr)
	}
	op.Run = func(ctx context.Context, c *Call) (*provider.CallResult, error) {
		var args Args
		if err := decodeArgs(c.req.Args, &args); err != nil {
			return nil, provider.Refused("invalid_args", err.Error())
		}
		res, err := f(ctx, c, args)
		if err != nil {
			return nil, err
		}
		return encodeResult(res)
	}
	return op
}

// Reply makes an operation that takes any object and always answers with value,
// which is encoded now: a value that JSON cannot hold is reported by Check.
func Reply(value any) Operation {
	res, err := encodeResult(value)
	return Operation{
		Run: func(context.Context, *Call) (*provider.CallResult, error) {
			return cloneResult(res), nil
		},
		mistake: err,
	}
}

// ReadFunc performs a read. What it returns is encoded as a result of Func
// would be; errors count as those of an operation. It may run many times at
// once and does not keep req.
type ReadFunc func(ctx context.Context, req *provider.ReadRequest) (any, error)

func decodeArgs(data []byte, args any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	return json.Unmarshal(data, args)
}

// encodeResult turns what a function returned into a result that shares no
// memory with it.
func encodeResult(v any) (*provider.CallResult, error) {
	r, ok := v.(Result)
	if !ok {
		r = Result{Value: v}
	}
	res := &provider.CallResult{Content: cloneContent(r.Content)}
	if r.Value == nil {
		return res, nil
	}
	value, err := json.Marshal(r.Value)
	if err != nil {
		return nil, provider.Unknown(fault.New(fault.ResultInvalid, "result is not JSON: %w", err))
	}
	res.Value = value
	return res, nil
}
