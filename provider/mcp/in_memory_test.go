package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/provider/providertest"
)

// versions are what a server supports that speaks one era, by era.
func versions() map[string][]string {
	return map[string][]string{"legacy": {"2025-11-25"}, "modern": {"2026-07-28"}}
}

// resident is a provider of a server of this process.
type resident struct {
	provider.Provider
	server *sdk.Server
	silent atomic.Bool

	mu    sync.Mutex
	calls []providertest.Call
}

func newResident(t *testing.T, versions []string) *resident {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	r := &resident{server: goodServer(over, versions...)}
	r.server.AddReceivingMiddleware(note(func(op string, args json.RawMessage) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, providertest.Call{Op: op, Args: args})
	}), r.hush)
	r.Provider = mcp.InMemory(r.server, &mcp.InMemoryOptions{MaxLine: 1 << 20, Grace: patience})
	return r
}

// hush makes a silent server answer nothing as long as somebody waits.
// Notifications, for which nobody does, pass.
func (r *resident) hush(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if r.silent.Load() && !strings.HasPrefix(method, "notifications/") {
			<-ctx.Done()
		}
		return next(ctx, method, req)
	}
}

func (r *resident) acted() []providertest.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]providertest.Call(nil), r.calls...)
}

func TestInMemoryConformance(t *testing.T) {
	t.Parallel()
	for era, versions := range versions() {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, providertest.Config{
				New:       func(t *testing.T) provider.Provider { return newResident(t, versions) },
				Patience:  patience,
				Abilities: providertest.Abilities{Reads: true, Watch: true},
				Echo:      providertest.Call{Op: "echo"},
				Slow:      providertest.Call{Op: "wait"},
				Refuse:    providertest.Call{Op: "fail"},
				Ask:       providertest.Call{Op: "sure"},
				Broken:    []providertest.Call{{Op: "big", Args: json.RawMessage(`{"Size":2000000}`)}},
				Silence:   func(_ *testing.T, p provider.Provider) { p.(*resident).silent.Store(true) },
				Change:    func(_ *testing.T, p provider.Provider) { growServer(p.(*resident).server) },
				Acted:     func(_ *testing.T, p provider.Provider) []providertest.Call { return p.(*resident).acted() },
			})
		})
	}
}

func TestInMemorySpeaksTheNewestEraOfTheServer(t *testing.T) {
	t.Parallel()
	versions := versions()
	versions["both"] = nil
	for era, versions := range versions {
		c := connect(t, mcp.InMemory(goodServer(nil, versions...), nil), &host{})
		meta := string(call(t, c, "meta", `{}`).Value)
		if modern := strings.Contains(meta, "protocolVersion"); modern != (era != "legacy") {
			t.Errorf("a server of era %s was sent %s", era, meta)
		}
	}
}

func TestInMemorySessionEndedByTheServer(t *testing.T) {
	t.Parallel()
	s := goodServer(nil)
	p := mcp.InMemory(s, nil)
	c, other := connect(t, p, &host{}), connect(t, mcp.InMemory(goodServer(nil), nil), &host{})
	for session := range s.Sessions() {
		session.Close()
	}
	<-c.Done()
	if err := c.Err(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("Err: %v, want it unavailable", err)
	}
	_, err := c.Call(within(t), &provider.CallRequest{Op: "echo"})
	wantCode(t, err, fault.NotSent)
	call(t, connect(t, p, &host{}), "echo", `{}`)
	call(t, other, "echo", `{}`)
}

func TestInMemorySessionsAreIndependent(t *testing.T) {
	t.Parallel()
	s := goodServer(nil)
	first, second := connect(t, mcp.InMemory(s, nil), &host{}), connect(t, mcp.InMemory(s, nil), &host{})
	if err := first.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
	call(t, second, "echo", `{}`)
	left := 0
	for range s.Sessions() {
		left++
	}
	if left != 1 {
		t.Errorf("the server has %d sessions after one of two was released", left)
	}
}

// TestInMemoryToolThatCannotBeStopped: nothing can end a goroutine from
// outside, so Release says that it is left.
func TestInMemoryToolThatCannotBeStopped(t *testing.T) {
	t.Parallel()
	began, over := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	s := goodServer(nil)
	rawTool(s, "stubborn", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		defer close(ended)
		close(began)
		<-over
		return text("late"), nil
	})
	c := connect(t, mcp.InMemory(s, &mcp.InMemoryOptions{Grace: brief}), &host{})
	cut := make(chan error, 1)
	go func() {
		_, err := c.Call(within(t), &provider.CallRequest{Op: "stubborn"})
		cut <- err
	}()
	<-began
	wantCode(t, c.Release(within(t)), fault.Closed)
	wantCode(t, <-cut, fault.OutcomeUnknown)
	close(over)
	<-ended
}

func TestInMemoryCarriesMoreThanAPipeHolds(t *testing.T) {
	t.Parallel()
	c := connect(t, mcp.InMemory(goodServer(nil), nil), &host{})
	large := `{"text":"` + strings.Repeat("x", 300<<10) + `"}`
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			r, err := c.Call(within(t), &provider.CallRequest{Op: "echo", Args: json.RawMessage(large)})
			if err != nil || !bytes.Equal(r.Value, []byte(large)) {
				t.Errorf("got %v, want the arguments back", err)
			}
		})
	}
	work.Wait()
}

func TestInMemoryEqualAndIdentity(t *testing.T) {
	t.Parallel()
	s := goodServer(nil)
	p := mcp.InMemory(s, nil)
	equal := p.(provider.Equaler).Equal
	for name, tt := range map[string]struct {
		other provider.Provider
		want  bool
	}{
		"same server":    {mcp.InMemory(s, &mcp.InMemoryOptions{}), true},
		"other options":  {mcp.InMemory(s, &mcp.InMemoryOptions{Timeout: time.Second}), false},
		"other server":   {mcp.InMemory(goodServer(nil), nil), false},
		"other provider": {mcp.Command("x"), false},
	} {
		if got := equal(tt.other); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	first, again := connect(t, p, &host{}).Identity(), connect(t, mcp.InMemory(goodServer(nil), nil), &host{}).Identity()
	named := sdk.NewServer(&sdk.Implementation{Name: "other", Version: "1"}, nil)
	other := connect(t, mcp.InMemory(named, nil), &host{}).Identity()
	if first.Instance == "" || first != again || first.Instance == other.Instance {
		t.Errorf("got %+v, %+v and %+v, want the name to tell servers apart", first, again, other)
	}
}

func TestInMemoryMistakes(t *testing.T) {
	t.Parallel()
	s := goodServer(nil)
	for name, p := range map[string]provider.Provider{
		"no server":   mcp.InMemory(nil, nil),
		"line":        mcp.InMemory(s, &mcp.InMemoryOptions{MaxLine: -1}),
		"grace":       mcp.InMemory(s, &mcp.InMemoryOptions{Grace: -1}),
		"call limit":  mcp.InMemory(s, &mcp.InMemoryOptions{Timeout: -1}),
		"no patience": mcp.InMemory(s, &mcp.InMemoryOptions{ConnectTimeout: -1}),
	} {
		wantCode(t, p.(provider.Checker).Check(), fault.ConnectionInvalid)
		if _, err := p.Connect(t.Context(), nil); !errors.Is(err, fault.ConnectionInvalid) {
			t.Errorf("%s: Connect: %v", name, err)
		}
	}
}

// TestInMemoryServerThatIsSilentCannotHoldConnect, and leaves nothing behind,
// which goleak sees.
func TestInMemoryServerThatIsSilentCannotHoldConnect(t *testing.T) {
	t.Parallel()
	r := newResident(t, nil)
	r.silent.Store(true)
	_, err := mcp.InMemory(r.server, &mcp.InMemoryOptions{ConnectTimeout: brief}).Connect(t.Context(), nil)
	wantCode(t, err, fault.Unavailable)
	for range r.server.Sessions() {
		t.Error("a session is left")
	}
}
