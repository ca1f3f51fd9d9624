package harness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/steps"
)

const (
	elicitToken = "s3cr3t-of-the-header"
	elicitForm  = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
)

// asker is an MCP server over HTTP whose tool asks its user, and in doing so
// shows the credential it was sent.
func asker(t *testing.T, opts *sdk.StreamableHTTPOptions) provider.Provider {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "asker", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}, askWho)
	front := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, opts))
	t.Cleanup(func() {
		for session := range s.Sessions() {
			session.Close()
		}
		front.CloseClientConnections()
		front.Close()
	})
	return mcp.HTTP(front.URL, &mcp.HTTPOptions{Headers: []mcp.Header{{Name: "X-Token", Value: elicitToken}}})
}

// askWho asks in the way of the era, and returns that and what it was told.
func askWho(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	answer, ok := r.Params.InputResponses["who"].(*sdk.ElicitResult)
	if !ok {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"who": &sdk.ElicitParams{
			Message:         "Who uses " + r.Extra.Header.Get("X-Token") + "?",
			RequestedSchema: json.RawMessage(elicitForm),
		}}, RequestState: "asked"}, nil
	}
	_, modern := r.Params.Meta[sdk.MetaKeyProtocolVersion]
	told, err := json.Marshal(map[string]any{"action": answer.Action, "content": answer.Content, "modern": modern})
	return &sdk.CallToolResult{StructuredContent: json.RawMessage(told)}, err
}

// TestAServerAsksTheApproverDuringACall has a server of each era ask, and the
// approver answer in every way there is.
func TestAServerAsksTheApproverDuringACall(t *testing.T) {
	eras := map[string]*sdk.StreamableHTTPOptions{"legacy": {}, "modern": {Stateless: true}}
	answers := map[string]struct {
		approver gates.ApproverFunc
		timeout  time.Duration
		want     string // what the server is told, but for the era
	}{
		"allowed": {func(context.Context, *gates.Approval) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Allow, Args: json.RawMessage(`{"name":"Ada"}`)}, nil
		}, 0, `{"action":"accept","content":{"name":"Ada"},`},
		"denied": {func(context.Context, *gates.Approval) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Deny, Reason: "none of its business"}, nil
		}, 0, `{"action":"decline","content":null,`},
		"not answered in time": {func(ctx context.Context, _ *gates.Approval) (gates.Decision, error) {
			<-ctx.Done()
			return gates.Decision{}, ctx.Err()
		}, 50 * time.Millisecond, `{"action":"cancel","content":null,`},
	}
	for era, opts := range eras {
		for name, tt := range answers {
			t.Run(era+"/"+name, func(t *testing.T) {
				asked := make(chan *gates.Approval, 10)
				h, err := harness.New(harness.Config{
					Name: "asked", Connections: connection.Set{"peer": {Provider: asker(t, opts)}}, ApprovalTimeout: tt.timeout,
					Approver: gates.ApproverFunc(func(ctx context.Context, a *gates.Approval) (gates.Decision, error) {
						asked <- a
						return tt.approver(ctx, a)
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				defer h.Close(context.WithoutCancel(t.Context()))
				got, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "peer", Op: "ask"}, nil, nil)
				if want := fmt.Sprintf(`%s"modern":%t}`, tt.want, era == "modern"); err != nil || string(got) != want {
					t.Errorf("the server was told %s (%v), want %s", got, err, want)
				}
				if n := len(asked); n != 1 {
					t.Fatalf("the approver was asked %d times, want once", n)
				}
				checkElicited(t, <-asked)
			})
		}
	}
}

// checkElicited: the approver sees who asks during which call, and the form,
// and of the message everything but the credential.
func checkElicited(t *testing.T, a *gates.Approval) {
	t.Helper()
	q := a.Question
	if q == nil || a.Call.Connection != "peer" || a.Call.Op != "ask" || q.Op != "ask" {
		t.Fatalf("the approver was asked %+v, want a question of peer during ask", a)
	}
	if strings.Contains(q.Message, elicitToken) || !strings.HasPrefix(q.Message, "Who uses ") || !strings.HasSuffix(q.Message, "?") {
		t.Errorf("the approver was asked %q, want the question without the credential", q.Message)
	}
	var form struct {
		Properties map[string]struct{ Type string }
		Required   []string
	}
	if err := json.Unmarshal(q.Schema, &form); err != nil || form.Properties["name"].Type != "string" || len(form.Required) != 1 {
		t.Errorf("the form is %s (%v), want that of the server", q.Schema, err)
	}
}
