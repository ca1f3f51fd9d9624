package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// thinker is a host that answers nothing before it is told to give up.
type thinker struct {
	host
	asked, gaveUp chan struct{}
}

func newThinker() *thinker {
	h := &thinker{asked: make(chan struct{}, 10), gaveUp: make(chan struct{}, 10)}
	h.ask = func(ctx context.Context, _ *provider.Question) (*provider.Answer, error) {
		h.asked <- struct{}{}
		<-ctx.Done()
		h.gaveUp <- struct{}{}
		return nil, context.Cause(ctx)
	}
	return h
}

// call calls a tool that asks, and returns once the host is being asked.
func (h *thinker) call(t *testing.T, ctx context.Context, c provider.Conn) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, &provider.CallRequest{Op: "ask", Args: json.RawMessage(`{"message":"Who?","schema":` + nameForm + `}`)})
		result <- err
	}()
	select {
	case <-h.asked:
	case err := <-result:
		t.Fatalf("the call ended before the host was asked: %v", err)
	}
	return result
}

func TestACancelledCallWithdrawsItsQuestion(t *testing.T) {
	t.Parallel()
	for way, p := range askingServers() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := newThinker()
			c := connect(t, p(t), &h.host)
			ctx, cancel := context.WithCancel(t.Context())
			result := h.call(t, ctx, c)
			cancel()
			err := <-result
			wantCode(t, err, fault.OutcomeUnknown)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's error in it", err)
			}
			<-h.gaveUp
			call(t, c, "echo", `{}`)
		})
	}
}

func TestReleaseWithdrawsQuestions(t *testing.T) {
	t.Parallel()
	for way, p := range askingServers() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := newThinker()
			c := connect(t, p(t), &h.host)
			result := h.call(t, t.Context(), c)
			if err := c.Release(within(t)); err != nil {
				t.Errorf("Release: %v", err)
			}
			wantCode(t, <-result, fault.OutcomeUnknown)
			<-h.gaveUp
		})
	}
}

func TestALostSessionWithdrawsQuestions(t *testing.T) {
	t.Parallel()
	for era, versions := range versions() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := goodServer(nil, versions...)
			addQuestions(s)
			rawTool(s, "kill", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				go r.Session.Close()
				return text("bye"), nil
			})
			h := newThinker()
			c := connect(t, mcp.InMemory(s, nil), &h.host)
			result := h.call(t, t.Context(), c)
			if era == "legacy" {
				// A session that its server closes waits for the tool; the
				// host's own end is what ends that.
				go c.Release(within(t))
			} else {
				c.Call(within(t), &provider.CallRequest{Op: "kill"}) // its answer may be lost too
			}
			<-c.Done()
			wantCode(t, <-result, fault.OutcomeUnknown)
			<-h.gaveUp
		})
	}
}

// TestAHostThatGoesOnThinkingHoldsUpNobody although it was told to stop.
func TestAHostThatGoesOnThinkingHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for era, versions := range versions() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := goodServer(nil, versions...)
			addQuestions(s)
			h := newThinker()
			over := make(chan struct{})
			h.ask = func(context.Context, *provider.Question) (*provider.Answer, error) {
				h.asked <- struct{}{}
				<-over
				return nil, nil
			}
			c := connect(t, mcp.InMemory(s, nil), &h.host)
			ctx, cancel := context.WithCancel(t.Context())
			result := h.call(t, ctx, c)
			cancel()
			wantCode(t, <-result, fault.OutcomeUnknown)
			call(t, c, "echo", `{}`)
			if err := c.Release(within(t)); err != nil {
				t.Errorf("Release: %v", err)
			}
			if h.logged() == "" {
				t.Error("nothing says that the host still thinks")
			}
			close(over)
		})
	}
}

// TestTheServerWithdrawsItsQuestion: the host learns it, and the call goes on.
func TestTheServerWithdrawsItsQuestion(t *testing.T) {
	t.Parallel()
	withdraw := make(chan struct{})
	hasty := func(s *sdk.Server) {
		rawTool(s, "ask", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			ctx, cancel := context.WithCancel(ctx)
			go func() { <-withdraw; cancel() }()
			_, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Quick!"})
			return structured(map[string]any{"withdrawn": err != nil}), nil
		})
	}
	for _, way := range []string{"memory", "http"} {
		t.Run(way, func(t *testing.T) {
			var p provider.Provider
			if way == "memory" {
				s := goodServer(nil, "2025-11-25")
				hasty(s)
				p = mcp.InMemory(s, nil)
			} else {
				f := serveHTTP(t, eras()["legacy"])
				hasty(f.server)
				p = mcp.HTTP(f.URL, nil)
			}
			h := newThinker()
			result := h.call(t, t.Context(), connect(t, p, &h.host))
			withdraw <- struct{}{}
			<-h.gaveUp
			if err := <-result; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAQuestionWhileNobodyWaits is asked all the same: servers of the earlier
// era may ask at any time. Nothing says what it is about.
func TestAQuestionWhileNobodyWaits(t *testing.T) {
	t.Parallel()
	servers := map[string]func(t *testing.T) (*sdk.Server, provider.Provider){
		"memory": func(*testing.T) (*sdk.Server, provider.Provider) {
			s := goodServer(nil, "2025-11-25")
			return s, mcp.InMemory(s, nil)
		},
		"http": func(t *testing.T) (*sdk.Server, provider.Provider) {
			f := serveHTTP(t, eras()["legacy"])
			return f.server, mcp.HTTP(f.URL, nil)
		},
	}
	for way, open := range servers {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s, p := open(t)
			connect(t, p, &host{ask: func(_ context.Context, q *provider.Question) (*provider.Answer, error) {
				if q.Op != "" {
					t.Errorf("the question is said to be about %s", q.Op)
				}
				return accept(`{"name":"Ada"}`), nil
			}})
			for session := range s.Sessions() {
				r, err := session.Elicit(within(t), &sdk.ElicitParams{Message: "Still there?", RequestedSchema: json.RawMessage(nameForm)})
				if err != nil || r.Action != "accept" || r.Content["name"] != "Ada" {
					t.Errorf("got %+v, %v", r, err)
				}
			}
		})
	}
}

// TestAnAnswerThatComesTooLate finds the connection as it was.
func TestAnAnswerThatComesTooLate(t *testing.T) {
	t.Parallel()
	s := goodServer(nil, "2025-11-25")
	addQuestions(s)
	began, over := make(chan struct{}), make(chan struct{})
	c := connect(t, mcp.InMemory(s, &mcp.InMemoryOptions{Timeout: patience}), &host{
		ask: func(context.Context, *provider.Question) (*provider.Answer, error) {
			close(began)
			<-over
			return accept(`{"name":"Ada"}`), nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, &provider.CallRequest{Op: "ask", Args: json.RawMessage(`{"message":"Who?","schema":` + nameForm + `}`)})
		result <- err
	}()
	<-began
	cancel()
	wantCode(t, <-result, fault.OutcomeUnknown)
	close(over)
	call(t, c, "echo", `{}`)
}

// TestARepeatedQuestionIsAskedOnce: streams that are taken up again repeat what
// they said.
func TestARepeatedQuestionIsAskedOnce(t *testing.T) {
	t.Parallel()
	const question = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Sure?"}}`
	h := newThinker()
	c := connect(t, raw("tools/call=!"+question+"\n"+question+"\n"+`{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}`), &h.host)
	call(t, c, "t", `{}`)
	<-h.asked
	if err := c.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
	if n := len(h.asked); n > 0 {
		t.Errorf("the host was asked %d times more", n)
	}
}
