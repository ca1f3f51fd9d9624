package inmemory_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

const nameForm = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

// asker is a thing whose operation returns what came of a question.
func asker(q provider.Question) *inmemory.Provider {
	type outcome struct {
		Action  provider.Action
		Content json.RawMessage
	}
	return single(inmemory.Func(func(ctx context.Context, c *inmemory.Call, _ struct{}) (outcome, error) {
		a, err := c.Ask(ctx, q)
		return outcome{a.Action, a.Content}, err
	}))
}

func connectWith(t *testing.T, p *inmemory.Provider, ask func(context.Context, *provider.Question) (*provider.Answer, error)) provider.Conn {
	t.Helper()
	conns, err := p.Connect(t.Context(), &provider.ConnectOptions{Ask: ask})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conns[0].Release(context.WithoutCancel(t.Context())) })
	return conns[0]
}

func TestAskReachesTheHost(t *testing.T) {
	q := provider.Question{Op: "other", Message: "Who?", Schema: json.RawMessage(nameForm)}
	var seen provider.Question
	c := connectWith(t, asker(q), func(_ context.Context, q *provider.Question) (*provider.Answer, error) {
		seen = *q
		return &provider.Answer{Action: provider.Accept, Content: json.RawMessage(`{"name":"Ada"}`)}, nil
	})
	r, err := c.Call(t.Context(), &provider.CallRequest{Op: "op"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"Action":"accept","Content":{"name":"Ada"}}`; string(r.Value) != want {
		t.Errorf("got %s, want %s", r.Value, want)
	}
	q.Op = "op"
	if diff := cmp.Diff(q, seen); diff != "" {
		t.Errorf("the question (-want +got):\n%s", diff)
	}
}

func TestAskOutcomes(t *testing.T) {
	form := provider.Question{Schema: json.RawMessage(nameForm)}
	accept := func(content string) *provider.Answer {
		return &provider.Answer{Action: provider.Accept, Content: json.RawMessage(content)}
	}
	for name, tt := range map[string]struct {
		question provider.Question
		answer   *provider.Answer
		err      error
		want     string // "" for a failed operation
	}{
		"nothing":        {form, nil, nil, `{"Action":"","Content":null}`},
		"decline":        {form, &provider.Answer{}, nil, `{"Action":"","Content":null}`},
		"dismiss":        {form, &provider.Answer{Action: provider.Dismiss, Content: json.RawMessage(`1`)}, nil, `{"Action":"cancel","Content":null}`},
		"does not fit":   {form, accept(`{}`), nil, ``},
		"no content":     {form, accept(``), nil, ``},
		"no form":        {provider.Question{URL: "https://example.org"}, accept(``), nil, `{"Action":"accept","Content":null}`},
		"no schema":      {provider.Question{Schema: json.RawMessage(`7`)}, accept(`{}`), nil, ``},
		"host fails":     {form, nil, errors.New("no approver"), ``},
		"host sends not": {form, nil, provider.NotSent(errors.New("no approver")), ``},
	} {
		c := connectWith(t, asker(tt.question), func(context.Context, *provider.Question) (*provider.Answer, error) { return tt.answer, tt.err })
		r, err := c.Call(t.Context(), &provider.CallRequest{Op: "op"})
		if tt.want == "" && fault.CodeOf(err) != fault.OpFailed {
			t.Errorf("%s: got %v, want a failed operation", name, err)
		}
		if tt.want != "" && (err != nil || string(r.Value) != tt.want) {
			t.Errorf("%s: got %v, %v, want %s", name, r, err, tt.want)
		}
	}
}

func TestAskWithoutAHostDeclines(t *testing.T) {
	c := connectWith(t, asker(provider.Question{Schema: json.RawMessage(nameForm)}), nil)
	r, err := c.Call(t.Context(), &provider.CallRequest{Op: "op"})
	if err != nil || string(r.Value) != `{"Action":"","Content":null}` {
		t.Errorf("got %v, %v", r, err)
	}
}

// TestAskEndsWithTheConnection also for a task, which goes on without it.
func TestAskEndsWithTheConnection(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan error, 1)
	p := single(inmemory.Func(func(ctx context.Context, c *inmemory.Call, _ struct{}) (string, error) {
		_, err := c.Ask(ctx, provider.Question{Message: "Well?"})
		ended <- err
		return "went on", nil
	}).With(provider.Facts{Long: true}))
	defer p.Close()
	c := connectWith(t, p, func(ctx context.Context, _ *provider.Question) (*provider.Answer, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	task := make(chan provider.TaskID, 1)
	go c.Call(t.Context(), &provider.CallRequest{Op: "op", Task: func(id provider.TaskID) error { task <- id; return nil }})
	id := <-task
	<-asked
	if err := c.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil || fault.CodeOf(err) == fault.NotSent {
		t.Errorf("Ask: %v", err)
	}
	later := connectWith(t, p, nil)
	tasker, _ := provider.Ability[provider.Tasker](later)
	if r, err := tasker.AwaitTask(t.Context(), id); err != nil || string(r.Value) != `"went on"` {
		t.Errorf("got %v, %v", r, err)
	}
}
