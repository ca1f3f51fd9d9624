package harness

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
)

// Call implements steps.Runtime.
func (r *runtime) Call(ctx context.Context, path steps.Path, s *steps.Call, _ json.RawMessage) (json.RawMessage, error) {
	args, marked, err := arguments(s.Args)
	if err != nil {
		return nil, err
	}
	sup, name, err := r.connect(ctx, s.Connection, s.Handle)
	if err != nil {
		return nil, err
	}
	out := r.x.call(ctx, &wanted{sup: sup, at: r.leases, call: gates.Call{Connection: name, Op: s.Op, Args: args, Secrets: marked,
		Source: gates.SourceStep, Step: string(path), Key: stepKey(r.x.id, string(path))}})
	if out.Err != nil {
		return nil, out.Err
	}
	return output(out), nil
}

// arguments writes a step's arguments as JSON, and says where its author put
// secrets; nil is no arguments.
func arguments(args any) (json.RawMessage, []secrets.Placeholder, error) {
	if args == nil {
		return nil, nil, nil
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, nil, fault.New(fault.ArgsInvalid, "arguments cannot be written as JSON: %w", err)
	}
	raw, marked, err := secrets.Extract(raw)
	if err != nil {
		return nil, nil, fault.From(err, fault.ArgsInvalid)
	}
	return absent(raw), marked, nil
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

// wanted is one call that somebody wants to make.
type wanted struct {
	sup  *supervisor
	at   *leases // of the line that wants it
	call gates.Call
	// grants reports whether the caller may use an operation of another
	// connection, should the references in the arguments belong there. Nil: it
	// may use only those of the same entry.
	grants func(connection.Name, string) bool
	// unrecorded is for reads that answer a question of the harness itself: they
	// have no entry of their own.
	unrecorded bool
}

// call takes one call of an operation or a read through the gates, and tells
// about it.
func (x *execution) call(ctx context.Context, w *wanted) *gates.Outcome {
	c := &w.call
	c.Execution, c.Thread = x.id, x.thread
	c.Key = rerunKey(c.Key, x.rec.Reruns(c.Key))
	ctx, end := x.h.span(ctx, event.Span{Kind: event.SpanCall, Name: c.Op, Thread: x.thread, Execution: x.id,
		Step: c.Step, Connection: string(c.Connection), Op: c.Op, Source: string(c.Source)})
	began := x.h.clock()
	ev := event.Event{Type: event.CallStarted, Step: c.Step, Connection: string(c.Connection), Op: c.Op,
		Source: string(c.Source), CallID: c.CallID, Key: c.Key}
	x.emit(ev)

	out := x.send(ctx, w, &ev)
	end(out.Err)
	ev.Type, ev.Err, ev.Gate, ev.Duration = event.CallCompleted, out.Err, out.Gate, x.h.since(began)
	if out.Connection != "" {
		ev.Connection = string(out.Connection)
	}
	x.emit(ev)
	x.tellRepaired(ev, out.Repaired)
	return out
}

// tellRepaired says which arguments of a model were mended.
func (x *execution) tellRepaired(ev event.Event, places []string) {
	if len(places) > 0 {
		ev.Type, ev.Err, ev.Text = event.Warning, nil, "arguments were taken out of strings at "+fault.Names(places)
		x.emit(ev)
	}
}

// target waits for a connection and says what a call of op meets there.
func (x *execution) target(ctx context.Context, sup *supervisor, name connection.Name, op string) (*link, gates.Target, error) {
	l, err := sup.await(ctx, name)
	if err != nil {
		return nil, gates.Target{}, err
	}
	t := sup.target(l)
	t.Name = name
	if !t.Catalog.IsRead(op) {
		return l, t, nil
	}
	reader, ok := provider.Ability[provider.Reader](l.conn)
	if !ok {
		return nil, gates.Target{}, fault.New(fault.OpUnknown, "its provider lists the read and cannot perform it")
	}
	t.Send, t.Read = nil, fence(l, reader.Read)
	return l, t, nil
}

// target is a link with the settings of its entry.
func (s *supervisor) target(l *link) gates.Target {
	catalog, identity := l.current()
	t := gates.Target{Name: l.name, Catalog: catalog, Identity: identity, Policy: s.entry.Policy,
		ModelSecrets: s.entry.ModelSecrets, Repair: s.entry.RepairArgs, Pin: s.entry.Pin, Send: fence(l, l.conn.Call)}
	if l.lease != nil {
		t.Lease, t.Pool = l.lease.ID, s.pool
	}
	return t
}

// asked tells about an approval that a call needs. The event says which call.
func (x *execution) asked(ev event.Event, a *gates.Approval) {
	x.approvals.Store(true)
	ev.Type, ev.Text = event.ApprovalRequested, a.Reason
	ev.Data = map[string]any{"approval": string(a.ID)}
	if a.Closed() {
		ev.Type, ev.Text = event.ApprovalDecided, a.Decision.Reason
		ev.Data["verdict"], ev.Data["by"] = string(a.Decision.Verdict), a.Decision.By
	}
	x.emit(ev)
}

func placedCall(err error, c *gates.Call) error {
	fe := *fault.From(err, fault.Unavailable)
	fe.Connection, fe.Op = string(c.Connection), c.Op
	return &fe
}

// Tool implements steps.Runtime.
func (r *runtime) Tool(ctx context.Context, path steps.Path, s *steps.InvokeTool, input json.RawMessage) (json.RawMessage, error) {
	args, marked := absent(input), []secrets.Placeholder(nil)
	if s.Args != nil {
		var err error
		if args, marked, err = arguments(s.Args); err != nil {
			return nil, err
		}
	}
	out := r.tool(ctx, path, s.Tool, gates.Call{Args: args, Secrets: marked, Source: gates.SourceStep,
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
	out := x.h.chain.Tool(ctx, &gates.ToolRequest{Call: c, Args: x.h.schema(t), Purse: x.purse,
		Invoke: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			// A conversation of its own: what a tool says must not come between
			// the model's call and its result.
			own := &runtime{x: x, leases: r.leases, log: newConversation(nil), line: string(path)}
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
