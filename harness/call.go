package harness

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

// Call implements steps.Runtime.
func (r *runtime) Call(ctx context.Context, path steps.Path, s *steps.Call, _ json.RawMessage) (json.RawMessage, error) {
	args, err := arguments(s.Args)
	if err != nil {
		return nil, err
	}
	sup, err := r.x.scope.resolve(s.Target())
	if err != nil {
		return nil, err
	}
	out := r.x.call(ctx, sup, gates.Call{Connection: s.Target(), Op: s.Op, Args: args,
		Source: gates.SourceStep, Step: string(path), Key: stepKey(r.x.id, string(path))})
	if out.Err != nil {
		return nil, out.Err
	}
	return output(out), nil
}

// arguments writes a step's arguments as JSON; nil is no arguments.
func arguments(args any) (json.RawMessage, error) {
	if args == nil {
		return nil, nil
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, fault.New(fault.ArgsInvalid, "arguments cannot be written as JSON: %w", err)
	}
	return absent(raw), nil
}

// absent makes JSON's null the absence of arguments, which a nil map and a step
// without input come to.
func absent(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// output is what a call step comes to: the structured value; without one the
// text as a JSON string; with other content, all of it.
func output(out *gates.Outcome) json.RawMessage {
	if len(out.Value) > 0 && string(out.Value) != "null" {
		return out.Value
	}
	var text strings.Builder
	for _, c := range out.Content {
		if c.Type != provider.ContentText {
			return encode(map[string]any{"content": out.Content})
		}
		text.WriteString(c.Text)
	}
	if len(out.Content) == 0 {
		return json.RawMessage("null")
	}
	return encode(text.String())
}

// encode writes what always can be written.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}

// call takes one call of an operation or a read through the gates, and tells
// about it.
func (x *execution) call(ctx context.Context, sup *supervisor, c gates.Call) *gates.Outcome {
	c.Execution, c.Thread = x.id, x.thread
	ctx, end := x.h.span(ctx, event.Span{Kind: event.SpanCall, Name: c.Op, Thread: x.thread, Execution: x.id,
		Step: c.Step, Connection: string(c.Connection), Op: c.Op, Source: string(c.Source)})
	began := x.h.clock()
	ev := event.Event{Type: event.CallStarted, Step: c.Step, Connection: string(c.Connection), Op: c.Op,
		Source: string(c.Source), CallID: c.CallID, Key: c.Key}
	x.emit(ev)

	out := x.send(ctx, sup, c, ev)
	end(out.Err)
	ev.Type, ev.Err, ev.Gate, ev.Duration = event.CallCompleted, out.Err, out.Gate, x.h.since(began)
	x.emit(ev)
	return out
}

// send waits for the connection and hands the call to the chain.
func (x *execution) send(ctx context.Context, sup *supervisor, c gates.Call, ev event.Event) *gates.Outcome {
	l, err := sup.await(ctx, c.Connection)
	if err != nil {
		return &gates.Outcome{Err: placedCall(err, c)}
	}
	catalog, identity := l.current()
	c.Identity = identity
	req := &gates.Request{Call: c, Catalog: catalog, Policy: sup.entry.Policy, Trace: x.h.trace(ctx)}
	if catalog.IsRead(c.Op) {
		reader, ok := provider.Ability[provider.Reader](l.conn)
		if !ok {
			return &gates.Outcome{Err: placedCall(fault.New(fault.OpUnknown, "its provider lists the read and cannot perform it"), c)}
		}
		req.Read = reader.Read
	} else {
		req.Send = l.conn.Call
		req.Progress = func(p provider.Progress) {
			ev.Type, ev.Text = event.CallProgress, p.Message
			ev.Data = map[string]any{"done": p.Done, "total": p.Total}
			x.emit(ev)
		}
	}
	out := x.h.chain.Call(ctx, req)
	if out.Identity != nil {
		sup.seen(l, *out.Identity)
	}
	return out
}

func placedCall(err error, c gates.Call) error {
	fe := *fault.From(err, fault.Unavailable)
	fe.Connection, fe.Op = string(c.Connection), c.Op
	return &fe
}

// Tool implements steps.Runtime.
func (r *runtime) Tool(ctx context.Context, path steps.Path, s *steps.InvokeTool, input json.RawMessage) (json.RawMessage, error) {
	args := absent(input)
	if s.Args != nil {
		var err error
		if args, err = arguments(s.Args); err != nil {
			return nil, err
		}
	}
	out := r.tool(ctx, path, s.Tool, gates.Call{Args: args, Source: gates.SourceStep,
		Key: stepKey(r.x.id, string(path))})
	return out.Value, out.Err
}

// tool takes one call of a Go tool through the gates, and tells about it.
func (r *runtime) tool(ctx context.Context, path steps.Path, t *steps.FuncTool, c gates.Call) *gates.Outcome {
	x := r.x
	c.Op, c.Step, c.Execution, c.Thread = t.Name(), string(path), x.id, x.thread
	c.Operation = provider.Operation{Name: t.Name(), Description: t.Description(), Args: t.Args()}
	ctx, end := x.h.span(ctx, event.Span{Kind: event.SpanTool, Name: t.Name(), Thread: x.thread, Execution: x.id,
		Step: c.Step, Op: t.Name(), Source: string(c.Source)})
	began := x.h.clock()
	ev := event.Event{Type: event.ToolStarted, Step: c.Step, Op: t.Name(), Source: string(c.Source),
		CallID: c.CallID, Key: c.Key}
	x.emit(ev)
	out := x.h.chain.Tool(ctx, &gates.ToolRequest{Call: c, Args: x.h.schema(t),
		Invoke: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			// A conversation of its own: what a tool says must not come between
			// the model's call and its result.
			own := &runtime{x: x, log: newConversation(nil)}
			return t.Invoke(steps.NewContext(ctx, own, path), args)
		}})
	end(out.Err)
	ev.Type, ev.Err, ev.Gate, ev.Duration = event.ToolCompleted, out.Err, out.Gate, x.h.since(began)
	x.emit(ev)
	return out
}

// schema returns the schema of a Go tool: compiled once for those that New saw.
func (h *AgentHarness) schema(t *steps.FuncTool) *gates.Schema {
	if s := h.schemas[t]; s != nil {
		return s
	}
	return gates.NewSchema(t.Args())
}
