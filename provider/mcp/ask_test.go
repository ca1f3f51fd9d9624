package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// nameForm is a form of one field.
const nameForm = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

// addQuestions adds tools that ask the person what their arguments say, in the
// way of the era: "ask" returns what came of it, "url" asks out of band.
func addQuestions(s *sdk.Server) {
	rawTool(s, "ask", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var args struct {
			Message, Mode, URL string
			Schema             json.RawMessage
		}
		json.Unmarshal(r.Params.Arguments, &args)
		p := &sdk.ElicitParams{Message: args.Message, Mode: args.Mode, URL: args.URL}
		if args.Schema != nil {
			p.RequestedSchema = args.Schema
		}
		answer, ok := r.Params.InputResponses["q"].(*sdk.ElicitResult)
		if !ok {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": p}, RequestState: "s"}, nil
		}
		return structured(map[string]any{"action": answer.Action, "content": answer.Content}), nil
	})
	rawTool(s, "several", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if r.Params.InputResponses == nil {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{
				"b": &sdk.ElicitParams{Message: "second"}, "a": &sdk.ElicitParams{Message: "first"},
			}}, nil
		}
		return structured(map[string]any{"n": len(r.Params.InputResponses)}), nil
	})
}

// askingServers are servers that ask, by how they are reached, era and transport.
func askingServers() map[string]func(*testing.T) provider.Provider {
	all := map[string]func(*testing.T) provider.Provider{}
	for era, versions := range versions() {
		all["memory "+era] = func(*testing.T) provider.Provider {
			s := goodServer(nil, versions...)
			addQuestions(s)
			return mcp.InMemory(s, nil)
		}
		all["stdio "+era] = func(*testing.T) provider.Provider { return server("asking", versions[0]) }
	}
	for era, opts := range eras() {
		all["http "+era] = func(t *testing.T) provider.Provider {
			f := serveHTTP(t, opts)
			addQuestions(f.server)
			return mcp.HTTP(f.URL, nil)
		}
	}
	return all
}

func legacy(way string) bool { return strings.Contains(way, "legacy") }

// knowsOp reports whether it can be known there which call a question is about:
// always, but for requests of the server that share one stream with all else.
func knowsOp(way string) bool { return !legacy(way) || way == "http legacy" }

func accept(content string) *provider.Answer {
	return &provider.Answer{Action: provider.Accept, Content: json.RawMessage(content)}
}

func TestAQuestionReachesTheHostAndTheAnswerTheServer(t *testing.T) {
	t.Parallel()
	for way, p := range askingServers() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var seen []provider.Question
			c := connect(t, p(t), &host{ask: func(_ context.Context, q *provider.Question) (*provider.Answer, error) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, *q)
				return accept(`{"name":"Ada"}`), nil
			}})
			form := call(t, c, "ask", `{"message":"Who?","schema":`+nameForm+`}`)
			page := call(t, c, "ask", `{"message":"Sign in","mode":"url","url":"https://example.org/in"}`)
			if got, want := string(form.Value), `{"action":"accept","content":{"name":"Ada"}}`; got != want {
				t.Errorf("form: the server got %s, want %s", got, want)
			}
			if got, want := string(page.Value), `{"action":"accept","content":null}`; got != want {
				t.Errorf("url: the server got %s, want %s", got, want)
			}
			op := ""
			if knowsOp(way) {
				op = "ask"
			}
			want := []provider.Question{{Op: op, Message: "Who?", Schema: seen[0].Schema}, {Op: op, Message: "Sign in", URL: "https://example.org/in"}}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
			var got, asked any
			json.Unmarshal(seen[0].Schema, &got)
			json.Unmarshal([]byte(nameForm), &asked)
			if diff := cmp.Diff(asked, got); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	answers := map[string]struct {
		ask  func(context.Context, *provider.Question) (*provider.Answer, error)
		want string
	}{
		"decline": {func(context.Context, *provider.Question) (*provider.Answer, error) { return &provider.Answer{}, nil }, "decline"},
		"nothing": {func(context.Context, *provider.Question) (*provider.Answer, error) { return nil, nil }, "decline"},
		"dismiss": {func(context.Context, *provider.Question) (*provider.Answer, error) {
			return &provider.Answer{Action: provider.Dismiss}, nil
		}, "cancel"},
		"error": {func(context.Context, *provider.Question) (*provider.Answer, error) {
			return nil, errors.New("no approver")
		}, "cancel"},
		"panic": {func(context.Context, *provider.Question) (*provider.Answer, error) { panic("oops") }, "cancel"},
		"unknown action": {func(context.Context, *provider.Question) (*provider.Answer, error) {
			return &provider.Answer{Action: "later"}, nil
		}, "cancel"},
		"does not fit": {func(context.Context, *provider.Question) (*provider.Answer, error) { return accept(`{"name":7}`), nil }, "cancel"},
	}
	for way, p := range askingServers() {
		for name, tt := range answers {
			t.Run(way+"/"+name, func(t *testing.T) {
				t.Parallel()
				h := &host{ask: tt.ask}
				c := connect(t, p(t), h)
				got := string(call(t, c, "ask", `{"message":"Who?","schema":`+nameForm+`}`).Value)
				if want := `{"action":"` + tt.want + `","content":null}`; got != want {
					t.Errorf("the server got %s, want %s", got, want)
				}
				if faulty := slices.Contains([]string{"error", "panic", "unknown action", "does not fit"}, name); faulty == (h.logged() == "") {
					t.Errorf("log: %q", h.logged())
				}
				call(t, c, "echo", `{}`) // the connection does not care
			})
		}
	}
}

// TestQuestionsThatNobodyIsAsked: they are refused before anyone sees them.
func TestQuestionsThatNobodyIsAsked(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"huge message": `{"message":"` + strings.Repeat("x", 70<<10) + `","schema":` + nameForm + `}`,
		"huge schema":  `{"message":"?","schema":{"type":"object","properties":{"a":{"type":"string","enum":["` + strings.Repeat(`x","`, 20<<10) + `"]}}}}`,
		"script":       `{"message":"?","mode":"url","url":"javascript:alert(1)"}`,
		"file":         `{"message":"?","mode":"url","url":"file:///etc/passwd"}`,
	}
	for way, p := range askingServers() {
		for name, args := range tests {
			t.Run(way+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := connect(t, p(t), &host{ask: func(context.Context, *provider.Question) (*provider.Answer, error) {
					t.Error("the host was asked")
					return nil, nil
				}})
				_, err := c.Call(within(t), &provider.CallRequest{Op: "ask", Args: json.RawMessage(args)})
				wantCode(t, err, fault.OpFailed)
				call(t, c, "echo", `{}`)
			})
		}
	}
}

func TestSeveralQuestionsOfOneCallComeInOrder(t *testing.T) {
	t.Parallel()
	s := goodServer(nil)
	addQuestions(s)
	var asked []string // unsynchronized: they come one after the other
	c := connect(t, mcp.InMemory(s, nil), &host{ask: func(_ context.Context, q *provider.Question) (*provider.Answer, error) {
		asked = append(asked, q.Message)
		return nil, nil
	}})
	call(t, c, "several", `{}`)
	if want := []string{"first", "second"}; !slices.Equal(asked, want) {
		t.Errorf("got %v, want %v", asked, want)
	}
}

// TestQuestionsAtTheSameTime: each call gets the answer to its own question,
// and the host sees them all at once, up to a limit.
func TestQuestionsAtTheSameTime(t *testing.T) {
	t.Parallel()
	const all, most = 20, 16
	for way, p := range askingServers() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			var asked sync.WaitGroup
			asked.Add(most)
			over := make(chan struct{})
			c := connect(t, p(t), &host{ask: func(_ context.Context, q *provider.Question) (*provider.Answer, error) {
				asked.Done() // panics if there are too many
				<-over
				return accept(`{"name":"` + q.Message + `"}`), nil
			}})
			results := make(chan error, all)
			for i := range all {
				go func() {
					r, err := c.Call(within(t), &provider.CallRequest{Op: "ask", Args: json.RawMessage(fmt.Sprintf(`{"message":"n%d","schema":%s}`, i, nameForm))})
					if err == nil && string(r.Value) != fmt.Sprintf(`{"action":"accept","content":{"name":"n%d"}}`, i) {
						err = errors.New(string(r.Value))
					}
					results <- err
				}()
			}
			asked.Wait()
			for range all - most { // those that were too many are over at once
				//allow:errtext the error is the test's own
				if err := <-results; err == nil || !strings.Contains(err.Error(), `"cancel"`) {
					t.Errorf("one too many: %v", err)
				}
			}
			close(over)
			for range most {
				if err := <-results; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestThinkingIsNotIdling: neither limit of a call counts the time that a
// person takes, and both go on counting afterwards.
func TestThinkingIsNotIdling(t *testing.T) {
	for era, versions := range versions() {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := goodServer(nil, versions...)
				addQuestions(s)
				addPonder(s)
				p := mcp.InMemory(s, &mcp.InMemoryOptions{Timeout: time.Minute, IdleTimeout: time.Second})
				conns, err := p.Connect(t.Context(), &provider.ConnectOptions{
					Ask: func(context.Context, *provider.Question) (*provider.Answer, error) {
						time.Sleep(time.Hour)
						return accept(`{"name":"Ada"}`), nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				c := conns[0]
				args := json.RawMessage(`{"message":"Who?","schema":` + nameForm + `}`)
				if _, err := c.Call(t.Context(), &provider.CallRequest{Op: "ask", Args: args}); err != nil {
					t.Errorf("a call whose question took an hour: %v", err)
				}
				if era == "legacy" { // there the call goes on after its question
					_, err = c.Call(t.Context(), &provider.CallRequest{Op: "ponder"})
					wantCode(t, err, fault.Timeout)
				}
				if err := c.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// addPonder adds a tool that asks and then does nothing for ever.
func addPonder(s *sdk.Server) {
	rawTool(s, "ponder", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Well?", RequestedSchema: json.RawMessage(nameForm)})
		if err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
}
