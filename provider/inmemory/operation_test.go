package inmemory_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

func single(op inmemory.Operation) *inmemory.Provider {
	return inmemory.New(inmemory.Options{Operations: map[string]inmemory.Operation{"op": op}})
}

// tree refers to itself, so its schema needs a definition as well as a root.
type tree struct {
	Name     string `json:"name"`
	Children []tree `json:"children,omitempty"`
}

type nested struct {
	Tree  tree           `json:"tree"`
	Extra map[string]int `json:"extra,omitempty"`
}

func TestTypesThatWriteThemselvesAreTheirText(t *testing.T) {
	op := inmemory.Func(func(context.Context, *inmemory.Call, struct{ From netip.Addr }) (netip.Addr, error) {
		return netip.Addr{}, nil
	})
	for value, schema := range map[string]json.RawMessage{`{"From":"127.0.0.1"}`: op.Args, `"127.0.0.1"`: op.Result} {
		if err := validate(t, schema, value); err != nil {
			t.Error(err)
		}
	}
}

func TestFuncReflectsSchemas(t *testing.T) {
	op := inmemory.Func(func(context.Context, *inmemory.Call, tree) (nested, error) { return nested{}, nil })
	for _, tt := range []struct {
		name   string
		schema json.RawMessage
		value  string
		ok     bool
	}{
		{"arguments", op.Args, `{"name":"a","children":[{"name":"b"}]}`, true},
		{"arguments of a child", op.Args, `{"name":"a","children":[{"name":1}]}`, false},
		{"arguments without a required field", op.Args, `{}`, false},
		{"arguments with an unknown field", op.Args, `{"name":"a","other":1}`, false},
		{"result", op.Result, `{"tree":{"name":"a"},"extra":{"x":1}}`, true},
		{"result of another type", op.Result, `{"tree":3}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := validate(t, tt.schema, tt.value); (err == nil) != tt.ok {
				t.Errorf("%s: got %v", tt.value, err)
			}
		})
	}
	var root map[string]any
	if err := json.Unmarshal(op.Args, &root); err != nil || root["type"] != "object" {
		t.Errorf("root is not an inline object: %s", op.Args)
	}
}

func validate(t *testing.T, schema json.RawMessage, value string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("test:schema", doc); err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("test:schema").Validate(v)
}

func TestFuncTakesAnythingForOpenTypes(t *testing.T) {
	op := inmemory.Func(func(_ context.Context, _ *inmemory.Call, args json.RawMessage) (inmemory.Result, error) {
		return inmemory.Result{Value: args, Content: []provider.Content{{Type: provider.ContentText, Text: "hi"}}}, nil
	})
	if op.Args != nil || op.Result != nil {
		t.Errorf("schemas %s and %s", op.Args, op.Result)
	}
	c := connect(t, single(op))
	res, err := c.Call(t.Context(), &provider.CallRequest{Op: "op", Args: json.RawMessage(`{"n":9007199254740993}`)})
	want := &provider.CallResult{Value: json.RawMessage(`{"n":9007199254740993}`),
		Content: []provider.Content{{Type: provider.ContentText, Text: "hi"}}}
	if diff := cmp.Diff(want, res); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestErrorsOfOperations(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		code fault.Code
	}{
		{"plain is the peer's failure", errors.New("no water"), fault.OpFailed},
		{"context error of its own", context.DeadlineExceeded, fault.OpFailed},
		{"refused", provider.Refused("empty", "no water"), fault.OpFailed},
		{"guarded", provider.Guarded("#all", "many"), fault.Guarded},
		{"not sent", provider.NotSent(errors.New("gone")), fault.NotSent},
		{"unknown", provider.Unknown(errors.New("gone")), fault.OutcomeUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := connect(t, single(inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (any, error) { return nil, tt.err })))
			if _, err := call(t.Context(), c, "op"); fault.CodeOf(err) != tt.code {
				t.Errorf("got %v, want %s", err, tt.code)
			}
		})
	}
}

func TestBadArgumentsAndResults(t *testing.T) {
	c := connect(t, single(inmemory.Func(func(context.Context, *inmemory.Call, tree) (any, error) { return func() {}, nil })))
	_, err := c.Call(t.Context(), &provider.CallRequest{Op: "op", Args: json.RawMessage(`{"name":1}`)})
	if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Code != fault.OpFailed || fe.PeerCode != "invalid_args" {
		t.Errorf("arguments: got %v", err)
	}
	_, err = call(t.Context(), c, "op")
	if fault.CodeOf(err) != fault.OutcomeUnknown || !errors.Is(err, fault.ResultInvalid) {
		t.Errorf("result that is not JSON: got %v", err)
	}
}

func TestUnknownNames(t *testing.T) {
	_, c := counter(t)
	if _, err := call(t.Context(), c, "subtract"); fault.CodeOf(err) != fault.NotSent || !errors.Is(err, fault.OpUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestPanicReachesTheCaller(t *testing.T) {
	c := connect(t, single(inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (any, error) { panic("boom") })))
	defer func() {
		if r := recover(); r != "boom" {
			t.Errorf("recovered %v", r)
		}
		if err := c.Release(t.Context()); err != nil {
			t.Errorf("the panic left the connection busy: %v", err)
		}
	}()
	call(t.Context(), c, "op")
}

func TestOperationThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := connect(t, single(inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (any, error) {
			<-end
			return nil, nil
		})))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := call(ctx, c, "op"); fault.CodeOf(err) != fault.OutcomeUnknown {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > time.Minute+time.Second {
			t.Errorf("returned %v after its context ended", took-time.Minute)
		}
		if err := c.Release(t.Context()); !errors.Is(err, fault.Timeout) {
			t.Errorf("Release says %v while the operation runs", err)
		}
		close(end)
		synctest.Wait()
		if err := c.Release(t.Context()); err != nil {
			t.Errorf("Release says %v when it ended", err)
		}
	})
}

func TestOperationMaySayWhatBecameOfACancelledCall(t *testing.T) {
	c := connect(t, single(inmemory.Func(func(ctx context.Context, _ *inmemory.Call, _ struct{}) (any, error) {
		<-ctx.Done()
		return nil, provider.NotSent(ctx.Err())
	})))
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := call(ctx, c, "op"); fault.CodeOf(err) != fault.NotSent || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestCallSeesItsRequest(t *testing.T) {
	var got provider.CallRequest
	var key provider.Key
	var approved bool
	c := connect(t, single(inmemory.Func(func(_ context.Context, c *inmemory.Call, _ any) (any, error) {
		got, key, approved = c.Request(), c.Key(), c.Approved()
		c.Progress(1, 2, "half")
		c.Progress(2, 2, "")
		return nil, nil
	})))
	var reports []provider.Progress
	req := &provider.CallRequest{Op: "op", Args: json.RawMessage(`{"a":1}`), Key: "k", Approval: "yes", Execution: "x",
		Trace: map[string]string{"traceparent": "00"}}
	want := *req
	req.Progress = func(p provider.Progress) { reports = append(reports, p) }
	if _, err := c.Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || key != "k" || !approved {
		t.Errorf("key %q, approved %v: %s", key, approved, diff)
	}
	if diff := cmp.Diff([]provider.Progress{{Done: 1, Total: 2, Message: "half"}, {Done: 2, Total: 2}}, reports); diff != "" {
		t.Errorf("progress: %s", diff)
	}
}

func TestReplyIsFixedWhenMade(t *testing.T) {
	value := map[string]int{"n": 1}
	op := inmemory.Reply(value)
	value["n"] = 2
	c := connect(t, single(op))
	if res, err := call(t.Context(), c, "op"); err != nil || string(res.Value) != `{"n":1}` {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestOnceKeepsOutcomesAndNotRefusals(t *testing.T) {
	n := 0
	p := single(inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (int, error) {
		if n++; n == 1 {
			return 0, errors.New("not yet")
		}
		return n, nil
	}).With(provider.Facts{Once: true}))
	c := connect(t, p)
	pay := func(key provider.Key) string {
		res, err := c.Call(t.Context(), &provider.CallRequest{Op: "op", Key: key})
		if err != nil {
			return string(fault.CodeOf(err))
		}
		return string(res.Value)
	}
	got := []string{pay("a"), pay("a"), pay("a"), pay("b"), pay(""), pay("")}
	p.Replace()
	got = append(got, pay("a"))
	if diff := cmp.Diff([]string{"op_failed", "2", "2", "3", "4", "5", "6"}, got); diff != "" {
		t.Error(diff)
	}
	var repeated []bool
	for _, rec := range p.Calls() {
		repeated = append(repeated, rec.Repeated)
	}
	if diff := cmp.Diff([]bool{false, false, true, false, false, false, false}, repeated); diff != "" {
		t.Error(diff)
	}
}

func TestOnceOutcomeSurvivesALostReplyAndAConnection(t *testing.T) {
	n := 0
	p := single(inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (int, error) {
		n++
		return n, nil
	}).With(provider.Facts{Once: true}))
	p.Fail("op", inmemory.Fault{Drop: true})
	first := connect(t, p)
	req := &provider.CallRequest{Op: "op", Key: "k"}
	if _, err := first.Call(t.Context(), req); fault.CodeOf(err) != fault.OutcomeUnknown {
		t.Fatalf("got %v", err)
	}
	if res, err := connect(t, p).Call(t.Context(), req); err != nil || string(res.Value) != "1" {
		t.Errorf("got %+v, %v, want the first outcome", res, err)
	}
}
