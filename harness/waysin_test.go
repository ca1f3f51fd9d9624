package harness_test

import (
	"context"
	"testing"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/triggers"
)

// gateRow is one gate, what to change so that it refuses, and how it says so.
type gateRow struct {
	name string
	shut shut
	code fault.Code
}

func gateRows() []gateRow {
	return []gateRow{
		{"exists", shut{exists: true}, fault.OpUnknown},
		{"schema", shut{schema: true}, fault.ArgsInvalid},
		{"refs", shut{refs: true}, fault.RefInvalid},
		{"policy", shut{policy: true}, fault.SteeringDenied},
		{"hooks", shut{hooks: true}, fault.SteeringDenied},
		{"budget", shut{budget: true}, fault.BudgetExceeded},
		{"approval", shut{approval: true}, fault.SteeringDenied},
		{"secrets", shut{secrets: true}, fault.SecretUnavailable},
	}
}

// wayIn is one way on which a call gets to the gates.
type wayIn struct {
	name string
	// through is the function that hands the call to the chain. A test in
	// internal/repotest holds this list against the sources.
	through string
	op      string // what is called
	at      string // the connection where it ends up
	from    string // the one it is addressed to, if that is another
	model   bool   // a model makes the call and is told in its result
	changed bool   // a hook puts the arguments in place
	calls   int64  // how many calls the run makes, one before it included
	arrives string // what reaches the other side when nothing refuses

	step   func(*world) steps.Step
	rounds func(*world) []scripted.Round
	set    func(*world) connection.Set
	// trigger is one that makes the call when the harness starts, in the place of a
	// step.
	trigger func(*world) triggers.Trigger

	secrets fault.Code        // the code of the last gate, if it is another one
	no      map[string]string // gates that have nothing to do on this way, and why
	// told replaces the check of how the caller is told.
	told func(w *world, gate string, err error)
}

const worldArgs = `{"at":"p-1","key":"` + worldSecret + `","text":"fits"}`

func one(w *world) connection.Set { return connection.Set{"far": w.entry(w.thing, true)} }

// both are two connections of which only the far one refuses anything.
func both(w *world) connection.Set {
	return connection.Set{"far": w.entry(w.thing, true), "near": w.entry(w.near, false)}
}

// twins are two connections of one entry.
func twins(w *world) connection.Set {
	p := &dialler{connect: func(ctx context.Context, o *provider.ConnectOptions) ([]provider.Conn, error) {
		near, err := w.near.Connect(ctx, o)
		if err != nil {
			return nil, err
		}
		far, err := w.thing.Connect(ctx, o)
		return append(near, far...), err
	}}
	return connection.Set{"twin": w.entry(p, true)}
}

func silent(*world) []scripted.Round { return nil }

func calls(tool string) func(*world) []scripted.Round {
	return func(w *world) []scripted.Round { return w.calling(tool, func() any { return w.spelled() }) }
}

// asking is a model step, offered everything or what it picks.
func asking(pick ...steps.Tool) func(*world) steps.Step {
	return func(*world) steps.Step { return steps.CallModel{ID: "m", Tools: pick} }
}

// calling is a step that calls an operation or a read.
func calling(to connection.Name, op string) func(*world) steps.Step {
	return func(w *world) steps.Step {
		return steps.Call{ID: "c", Connection: to, Op: op, Args: w.written()}
	}
}

// in is a way whose call is made by a step in another one.
func in(wrap func(steps.Step) steps.Step) func(*world) steps.Step {
	return func(w *world) steps.Step { return wrap(calling("far", "act")(w)) }
}

const (
	toolExists  = "the step holds the tool itself"
	toolPolicy  = "a policy is about connections"
	pageExists  = "the tool is offered when there is something to read on"
	triggerPays = "a trigger belongs to no execution; its turns have budgets"
	questionNot = "a question is no call: nothing is called, paid or sent but the answer"
)

func waysIn() []wayIn {
	return []wayIn{
		{name: "model tool", through: "execution.sendOnce", op: "act", at: "far", model: true, calls: 2, arrives: worldArgs,
			step: asking(), rounds: calls("far_act"), set: one},
		{name: "pick of a model step", through: "execution.sendOnce", op: "act", at: "far", model: true, calls: 2, arrives: worldArgs,
			step: asking(connection.Tools("far", "act")), rounds: calls("far_act"), set: one},
		{name: "step", through: "execution.sendOnce", op: "act", at: "far", calls: 2, arrives: worldArgs,
			step: calling("far", "act"), rounds: silent, set: one},
		{name: "read", through: "execution.sendOnce", op: "look", at: "far", calls: 2, arrives: worldArgs,
			step: calling("far", "look"), rounds: silent, set: one},
		{name: "step in a function", through: "execution.sendOnce", op: "act", at: "far", calls: 2, arrives: worldArgs,
			step: in(func(s steps.Step) steps.Step {
				return steps.Func("f", func(c steps.Context, _ any) (any, error) { return steps.Do(c, s.(steps.Call)) })
			}), rounds: silent, set: one},
		{name: "spawned child", through: "execution.sendOnce", op: "act", at: "far", calls: 2, arrives: worldArgs,
			step: in(func(s steps.Step) steps.Step { return steps.Spawn{ID: "child", Child: s} }), rounds: silent, set: one},
		{name: "parallel path", through: "execution.sendOnce", op: "act", at: "far", calls: 2, arrives: worldArgs,
			step: in(func(s steps.Step) steps.Step { return steps.Parallel{ID: "p", Paths: []steps.Step{s}} }), rounds: silent, set: one},
		{name: "arguments that a hook changed", through: "execution.sendOnce", op: "act", at: "far", changed: true, calls: 2, arrives: worldArgs,
			step: func(*world) steps.Step {
				return steps.Call{ID: "c", Connection: "far", Op: "act", Args: map[string]any{"text": "innocent", "key": secrets.Ref("token")}}
			}, rounds: silent, set: one},
		{name: "reference of another connection, by a model", through: "execution.sendOnce", op: "act", at: "far", from: "near", model: true, calls: 2, arrives: worldArgs,
			step: asking(), rounds: calls("near_act"), set: both},
		{name: "reference of a twin, by a step", through: "execution.sendOnce", op: "act", at: "twin-far", from: "twin-near", calls: 2, arrives: worldArgs,
			step: calling("twin-near", "act"), rounds: silent, set: twins},
		{name: "listening", through: "listening.listen", op: "rung", at: "far", calls: 2, arrives: worldArgs,
			step: func(w *world) steps.Step {
				return steps.Wait{ID: "w", Connection: "far", Event: "rung", Args: w.written(),
					Around: steps.Func("ring", func(steps.Context, any) (any, error) { return w.thing.Emit("rung", 1), nil })}
			}, rounds: silent, set: one},
		{name: "listening of a trigger", through: "inbound.listen", op: "rung", at: "far", calls: 1, arrives: worldArgs,
			trigger: func(w *world) triggers.Trigger {
				return triggers.Trigger{ID: worldThread, Connection: "far", Event: "rung", Args: w.written(),
					Filter: func(triggers.Event) (bool, error) { close(w.heard); return false, nil }}
			}, rounds: silent, set: one, no: map[string]string{"budget": triggerPays}},
		{name: "Go tool of a step", through: "runtime.tool", op: "act", calls: 2, arrives: `{"text":"fits","at":"content","key":"` + worldSecret + `"}`,
			step: func(w *world) steps.Step {
				return steps.InvokeTool{ID: "i", Tool: w.tool, Args: w.args(w.blob, secrets.Ref("token"))}
			}, rounds: silent, set: one, secrets: fault.BlobUnavailable,
			no: map[string]string{"exists": toolExists, "policy": toolPolicy, "approval": toolPolicy}},
		{name: "Go tool of a model", through: "runtime.tool", op: "act", model: true, calls: 2, arrives: `{"text":"fits","at":"content"}`,
			step: asking(), rounds: func(w *world) []scripted.Round {
				return w.calling("act", func() any { return w.args(w.blob, nil) })
			}, set: func(*world) connection.Set { return nil }, secrets: fault.BlobUnavailable,
			no: map[string]string{"exists": "a name that is not offered is no call", "policy": toolPolicy, "approval": toolPolicy}},
		{name: "blob paging", through: "dialogue.page", op: "read_blob", model: true, calls: 3, arrives: "page",
			step: asking(), rounds: paging, set: one,
			no: map[string]string{"exists": pageExists, "policy": toolPolicy, "approval": toolPolicy,
				"secrets": "the tool takes a handle and no secret"}},
		{name: "question of a server", through: "supervisor.question", op: "ask", at: "far", calls: 2, arrives: `{"name":"me"}`,
			step: func(*world) steps.Step { return steps.Call{ID: "c", Connection: "far", Op: "ask"} }, rounds: silent, set: one,
			told: declined,
			no: map[string]string{"exists": questionNot, "refs": questionNot, "policy": questionNot, "hooks": questionNot,
				"budget": questionNot, "secrets": questionNot}},
	}
}

// paging is a model that is shown the beginning of a long result and reads on.
func paging(w *world) []scripted.Round {
	args := map[string]any{"blob": "blob-1"}
	if w.shut.schema {
		args["offset"] = -1
	}
	if w.shut.refs {
		args["blob"] = w.blob
	}
	return []scripted.Round{scripted.CallTool("far_long", nil), scripted.CallTool("read_blob", args), scripted.Say("ended")}
}

// declined checks that a server was told no.
func declined(w *world, _ string, err error) {
	if err != nil || len(w.arrived) > 0 || len(w.answers) != 1 || w.answers[0].Action == provider.Accept {
		w.t.Errorf("answers %v, arrived %s, %v", w.answers, w.arrived, err)
	}
}

func TestEveryGateRefusesOnEveryWayIn(t *testing.T) {
	for _, way := range waysIn() {
		t.Run(way.name, func(t *testing.T) {
			t.Run("passes", func(t *testing.T) {
				w := worldOf(t, &way, shut{})
				w.passed(w.run())
			})
			for _, gate := range gateRows() {
				t.Run(gate.name, func(t *testing.T) { refusedOn(t, way, gate) })
			}
		})
	}
}

func refusedOn(t *testing.T, way wayIn, gate gateRow) {
	if why := way.no[gate.name]; why != "" {
		t.Log("there is no such cell: " + why)
		return
	}
	code := gate.code
	if gate.name == "secrets" && way.secrets != "" {
		code = way.secrets
	}
	w := worldOf(t, &way, gate.shut)
	err := w.run()
	if way.told != nil {
		way.told(w, gate.name, err)
		return
	}
	w.refused(gate.name, code, err)
}

// TestAReferenceWidensNothing makes calls whose reference belongs to a
// connection that their caller was not given.
func TestAReferenceWidensNothing(t *testing.T) {
	for _, way := range []wayIn{
		{name: "step between two entries", at: "far", step: calling("near", "act"), rounds: silent, set: both},
		{name: "pick of one connection", at: "far", model: true,
			step: asking(connection.Tools("near")), rounds: calls("near_act"), set: both},
		{name: "pick of another operation there", at: "far", model: true,
			step: asking(connection.Tools("near"), connection.Tools("far", "long")), rounds: calls("near_act"), set: both},
		{name: "pick of one of twins", at: "twin-far", model: true,
			step: asking(connection.Tools("twin-near")), rounds: calls("twin-near_act"), set: twins},
		{name: "connection that no model sees", at: "far", model: true,
			step: asking(), rounds: calls("near_act"), set: func(w *world) connection.Set {
				set := both(w)
				e := set["far"]
				e.Expose = connection.ExposeNone
				set["far"] = e
				return set
			}},
	} {
		t.Run(way.name, func(t *testing.T) {
			way.op, way.calls = "act", 2
			w := worldOf(t, &way, shut{})
			err := w.run()
			if !way.model {
				wantCode(t, err, fault.RefUnknown)
			}
			ev := w.ended()
			wantCode(t, ev.Err, fault.RefUnknown)
			if len(w.arrived) > 0 || ev.Gate != "refs" {
				t.Errorf("arrived %s, gate %q", w.arrived, ev.Gate)
			}
		})
	}
}
