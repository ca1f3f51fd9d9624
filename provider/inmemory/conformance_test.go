package inmemory_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/provider/providertest"
)

const planted = "pl4nted-credential"

// complete has something for each property of the kit.
func complete() inmemory.Options {
	block := func(ctx context.Context, _ *inmemory.Call, _ struct{}) (struct{}, error) {
		<-ctx.Done()
		return struct{}{}, ctx.Err()
	}
	type args struct {
		Text string `json:"text"`
	}
	return inmemory.Options{
		Surface:     "kit",
		Credentials: []string{planted},
		Operations: map[string]inmemory.Operation{
			"echo": inmemory.Func(func(_ context.Context, c *inmemory.Call, a args) (inmemory.Result, error) {
				c.Progress(1, 2, "half")
				return inmemory.Result{Value: a, Content: []provider.Content{
					{Type: provider.ContentImage, Data: []byte("png"), MIMEType: "image/png"}}}, nil
			}),
			"block": inmemory.Func(block),
			"refuse": inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (struct{}, error) {
				return struct{}{}, provider.Refused("empty", "no water")
			}),
			"lose": inmemory.Reply(1),
			"ask": inmemory.Func(func(ctx context.Context, c *inmemory.Call, _ struct{}) (provider.Action, error) {
				a, err := c.Ask(ctx, provider.Question{Message: "Sure?"})
				return a.Action, err
			}),
			"pay": inmemory.Func(func(_ context.Context, c *inmemory.Call, _ struct{}) (provider.Key, error) {
				return c.Key(), nil
			}).With(provider.Facts{Effects: true, Once: true}),
			"render": inmemory.Func(func(ctx context.Context, _ *inmemory.Call, _ struct{}) (string, error) {
				select {
				case <-ctx.Done():
					return "", ctx.Err()
				case <-time.After(10 * time.Millisecond):
					return "rendered", nil
				}
			}).With(provider.Facts{Long: true}),
		},
		Reads: map[string]inmemory.ReadFunc{
			"level": func(context.Context, *provider.ReadRequest) (any, error) { return map[string]int{"level": 3}, nil },
		},
		Events: map[string]provider.EventType{"ticked": {Replay: provider.ReplayCursor}},
		Reset:  func(context.Context) error { return nil },
	}
}

func TestConformance(t *testing.T) {
	self := func(p provider.Provider) *inmemory.Provider { return p.(*inmemory.Provider) }
	providertest.Run(t, providertest.Config{
		New: func(t *testing.T) provider.Provider {
			p := inmemory.New(complete())
			p.Fail("lose", inmemory.Fault{Lost: true, Times: -1})
			t.Cleanup(func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
			return p
		},
		Abilities: providertest.Abilities{Reads: true, Events: true, Tasks: true, Watch: true,
			Reset: true, Provision: true, Reattach: true, Detach: true},
		Echo:    providertest.Call{Op: "echo", Args: json.RawMessage(`{"text":"hello"}`)},
		Slow:    providertest.Call{Op: "block"},
		Refuse:  providertest.Call{Op: "refuse"},
		Broken:  []providertest.Call{{Op: "lose"}},
		Once:    providertest.Call{Op: "pay"},
		Task:    providertest.Call{Op: "render"},
		Ask:     providertest.Call{Op: "ask"},
		Emit:    func(_ *testing.T, p provider.Provider) { self(p).Emit("ticked", map[string]int{"n": 1}) },
		Kill:    func(_ *testing.T, p provider.Provider) { self(p).Drop() },
		Silence: func(_ *testing.T, p provider.Provider) { self(p).Fail("echo", inmemory.Fault{Hang: true}) },
		Change:  func(_ *testing.T, p provider.Provider) { self(p).Reload() },
		Acted: func(_ *testing.T, p provider.Provider) []providertest.Call {
			var out []providertest.Call
			for _, c := range self(p).Calls() {
				if !c.Repeated {
					out = append(out, providertest.Call{Op: c.Op, Args: c.Args})
				}
			}
			return out
		},
		Secret: planted,
	})
}
