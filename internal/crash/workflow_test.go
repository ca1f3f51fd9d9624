package crash_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
)

// on is the name of the only connection.
const on = "peer"

// workflow runs about sixty steps of every kind. Each call has arguments that no
// other has, so that the peer sees which one it is.
func workflow() steps.Step {
	return steps.Sequence{ID: "work", Steps: []steps.Step{
		in("booth", booths, connection.FreshRun, "begin", opOnce, 100),
		opening(),
		steps.Func("middle", middle),
		closing(),
	}}
}

type object = map[string]any

// do calls an operation with a number.
func do(id steps.ID, op string, n int) steps.Call {
	return steps.Call{ID: id, Connection: on, Op: op, Args: object{"n": n}}
}

// in calls an operation of a thing that is leased.
func in(name connection.Name, pool connection.Name, fresh connection.Fresh, id steps.ID, op string, n int) steps.Call {
	handle := connection.NewHandle(name, nil, &connection.HandleOptions[object]{From: pool, Fresh: fresh, Setup: object{"for": name}})
	return steps.Call{ID: id, Handle: handle, Op: op, Args: object{"n": n}}
}

// opening is steps as values: branches, loops and calls of every kind.
func opening() steps.Step {
	return steps.Sequence{ID: "opening", Steps: []steps.Step{
		do("once", opOnce, 1),
		do("plain", opPlain, 2),
		steps.If{ID: "if", Cond: steps.Input(func(_ steps.Context, in struct{ N int }) (bool, error) { return in.N == 2, nil }),
			Then: do("put", opPut, 3), Else: do("wrong", opPlain, -1)},
		do("book", opReconcile, 4),
		steps.Call{ID: "secret", Connection: on, Op: opOnce, Args: object{"n": 5, "token": secrets.Ref("token")}},
		do("guarded", opGuarded, 6),
		do("big", opBig, 7),
		steps.Call{ID: "look", Connection: on, Op: readStock},
		do("long", opOnceLong, 8),
		do("task", opLong, 9),
		steps.Loop{ID: "loop", Max: 3, Body: steps.Call{ID: "turn", Connection: on, Op: opOnce,
			ArgsFrom: steps.Input(func(_ steps.Context, in struct{ N int }) (any, error) { return object{"n": in.N + 10}, nil })}},
	}}
}

// middle is steps in code: what it comes to is all they came to.
func middle(c steps.Context, _ json.RawMessage) (object, error) {
	out := object{}
	for i, part := range []func(steps.Context) (any, error){stamped, tried, side, waits, settled, spawned} {
		v, err := part(c)
		if err != nil {
			return nil, err
		}
		out[string(rune('a'+i))] = v
	}
	return out, nil
}

// stamped sends something that is not the same in two processes.
func stamped(c steps.Context) (any, error) {
	text, err := steps.Record(c, "random", func(context.Context) (string, error) { return rand.Text(), nil })
	if err != nil {
		return nil, err
	}
	return steps.Do(c, steps.As[json.RawMessage](steps.Call{ID: "stamp", Connection: on, Op: opOnce, Args: object{"n": 40, "stamp": text}}))
}

// tried goes on after failures.
func tried(c steps.Context) (any, error) {
	failed := 0
	for n := range 2 {
		_, err := steps.Do(c, steps.As[json.RawMessage](do("attempt", opRefuse, 41+n)))
		if !errors.Is(err, fault.OpFailed) {
			return nil, errors.Join(errors.New("was not refused"), err)
		}
		failed++
	}
	r, err := steps.Do(c, steps.Try(steps.As[json.RawMessage](steps.Sequence{ID: "try", Steps: []steps.Step{
		do("good", opOnce, 43), do("bad", opRefuse, 44)}})))
	if err != nil || r.Err == nil {
		return nil, errors.Join(errors.New("was not tried"), err)
	}
	return failed, nil
}

// side runs six paths side by side, two of them with models and two with things of
// their own.
func side(c steps.Context) (any, error) {
	p := steps.Parallel{ID: "side", Paths: []steps.Step{
		steps.Sequence{ID: "p", Steps: []steps.Step{do("a", opOnce, 50), do("b", opPlain, 51), do("c", opPut, 52)}},
		steps.Sequence{ID: "q", Steps: []steps.Step{do("a", opReconcile, 53), do("b", opOnce, 54)}},
		ask("r", "peer_once:{\"n\":55}\npeer_once:{\"n\":56}"),
		steps.Sequence{ID: "t", Steps: []steps.Step{in("own", booths, connection.FreshPath, "a", opOnce, 101), do("b", opOnce, 102),
			in("own", booths, connection.FreshPath, "c", opPut, 103)}},
		steps.Sequence{ID: "u", Steps: []steps.Step{in("room", rooms, connection.FreshPath, "a", opRoom, 104),
			in("room", rooms, connection.FreshPath, "b", opRoom, 105)}},
		ask("s", "peer_once:{\"n\":57}\npeer_once:{\"n\":58} peer_refuse:{\"n\":59}"),
	}}
	out, err := steps.Do(c, steps.As[json.RawMessage](p))
	return out, err
}

// ask has a model call tools by a script.
func ask(id steps.ID, script string) steps.Step {
	return steps.Func(id, func(c steps.Context, _ json.RawMessage) (string, error) {
		return steps.DoWith(c, steps.As[string](steps.CallModel{ID: "model", Instructions: script}), "go")
	})
}

// waits waits for what it causes.
func waits(c steps.Context) (any, error) {
	wait := func(id steps.ID, around steps.Step) steps.Wait {
		return steps.Wait{ID: id, Connection: on, Event: eventPing, Args: object{"topic": id}, Around: around}
	}
	emit := func(topic steps.ID, n int) steps.Step {
		return steps.Call{ID: "emit", Connection: on, Op: opEmit, Args: object{"n": n, "topic": topic}}
	}
	first, err := steps.Do(c, steps.As[json.RawMessage](wait("one", emit("one", 60))))
	if err != nil {
		return nil, err
	}
	second := wait("two", steps.Sequence{ID: "twice", Steps: []steps.Step{
		steps.Call{ID: "not", Connection: on, Op: opEmit, Args: object{"n": 61, "topic": "two"}},
		steps.Call{ID: "but", Connection: on, Op: opEmit, Args: object{"n": 62, "topic": "two"}},
	}})
	second.Filter = func(ev provider.Event) bool { return ev.Cursor == "2" }
	both, err := steps.Do(c, steps.As[json.RawMessage](second))
	if err != nil {
		return nil, err
	}
	any, err := steps.Do(c, steps.As[json.RawMessage](steps.WaitAny{ID: "any", Timeout: time.Hour, Waits: []steps.Wait{
		wait("never", nil), wait("three", emit("three", 63))}}))
	return []json.RawMessage{first, both, any}, err
}

// settled has one path fail, and another go on.
func settled(c steps.Context) (any, error) {
	return steps.Do(c, steps.As[json.RawMessage](steps.Parallel{ID: "settle", Mode: steps.ModeSettle, Paths: []steps.Step{
		steps.Sequence{ID: "good", Steps: []steps.Step{do("a", opOnce, 70), do("b", opOnce, 71)}},
		steps.Sequence{ID: "bad", Steps: []steps.Step{do("a", opOnce, 72), do("b", opRefuse, 73)}},
	}, Merge: func(all []steps.Outcome) (any, error) {
		return object{"good": all[0].Value, "bad": all[1].Err != nil}, nil
	}}))
}

func spawned(c steps.Context) (any, error) {
	return steps.Do(c, steps.As[json.RawMessage](steps.Spawn{ID: "spawn", Timeout: time.Hour, Child: do("child", opOnce, 80)}))
}

// closing asks a model in the conversation of the run. One of its tools is Go
// that calls the peer.
func closing() steps.Step {
	return steps.Func("closing", func(c steps.Context, middle json.RawMessage) (object, error) {
		answer, err := steps.DoWith(c, steps.As[string](steps.CallModel{ID: "model",
			Instructions: "peer_once:{\"n\":90} peer_put:{\"n\":91}\nnested:{\"n\":92} peer_refuse:{\"n\":95}\npeer_plain:{\"n\":93}\npeer_book:{\"n\":94}"}), "go")
		if err != nil {
			return nil, err
		}
		if _, err := steps.Do(c, steps.As[json.RawMessage](in("booth", booths, connection.FreshRun, "end", opOnce, 106))); err != nil {
			return nil, err
		}
		last, err := steps.Do(c, steps.As[json.RawMessage](do("last", opPlain, 99)))
		return object{"answer": answer, "last": last, "middle": middle}, err
	})
}

// nested is a tool that calls the peer.
func nested() *steps.FuncTool {
	type args struct {
		N int `json:"n"`
	}
	return steps.NewTool("nested", "calls the peer", func(c steps.Context, a args) (json.RawMessage, error) {
		return steps.Do(c, steps.As[json.RawMessage](do("inner", opOnce, a.N)))
	})
}
