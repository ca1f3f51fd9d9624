package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/provider/providertest"
)

// recorders are servers that tell which calls they acted upon.
func recorders(t *testing.T) map[string]struct {
	provider.Provider
	acted func() []providertest.Call
} {
	dir := t.TempDir()
	local := &child{dir: dir, Provider: mcp.Stdio(serverCommand("kept", dir), &mcp.StdioOptions{Grace: patience})}
	old, modern := newSite(t, eras()["legacy"]), newSite(t, eras()["modern"])
	return map[string]struct {
		provider.Provider
		acted func() []providertest.Call
	}{
		"stdio":       {local, func() []providertest.Call { return local.acted(t) }},
		"http legacy": {old, old.acted},
		"http modern": {modern, modern.acted},
	}
}

// TestNotSentIsNeverExecuted cancels calls at every moment there is: one that
// counts as not sent never reaches the server.
func TestNotSentIsNeverExecuted(t *testing.T) {
	t.Parallel()
	for name, r := range recorders(t) {
		t.Run(name, func(t *testing.T) {
			c := connect(t, r, &host{})
			var mu sync.Mutex
			withheld := map[string]bool{}
			var callers sync.WaitGroup
			for caller := range 8 {
				callers.Go(func() {
					for i := range 40 {
						args := fmt.Sprintf(`{"call":"%d/%d"}`, caller, i)
						ctx, cancel := context.WithTimeout(within(t), time.Duration(i)*25*time.Microsecond)
						_, err := c.Call(ctx, &provider.CallRequest{Op: "echo", Args: json.RawMessage(args)})
						cancel()
						switch {
						case errors.Is(err, fault.NotSent):
							mu.Lock()
							withheld[args] = true
							mu.Unlock()
						case err != nil && !errors.Is(err, fault.OutcomeUnknown):
							t.Errorf("got %v, want not_sent or outcome_unknown", err)
						}
					}
				})
			}
			callers.Wait()
			call(t, c, "echo", `{"last":1}`)
			for _, done := range r.acted() {
				if withheld[string(done.Args)] {
					t.Errorf("the server executed %s, which counts as not sent", done.Args)
				}
			}
		})
	}
}

// TestCallsAtTheEnd has many callers when a connection ends: each hears of it
// at once, in a way that says what happened to its call.
func TestCallsAtTheEnd(t *testing.T) {
	t.Parallel()
	const callers = 64
	ends := map[string]func(*testing.T, provider.Conn, provider.Provider){
		"release": func(t *testing.T, c provider.Conn, _ provider.Provider) { c.Release(within(t)) },
		"kill": func(t *testing.T, _ provider.Conn, p provider.Provider) {
			if kept, ok := p.(*child); ok {
				kept.signal(t, syscall.SIGKILL)
				return
			}
			p.(*site).forget()
		},
	}
	for how, end := range ends {
		for name, r := range recorders(t) {
			if how == "kill" && name == "http modern" {
				continue // it has nothing that could end
			}
			t.Run(how+"/"+name, func(t *testing.T) {
				c := connect(t, r.Provider, &host{})
				var going sync.WaitGroup
				var done atomic.Int32
				for range callers {
					going.Go(func() {
						for {
							_, err := c.Call(within(t), &provider.CallRequest{Op: "echo", Args: json.RawMessage(`{}`)})
							done.Add(1)
							if errors.Is(err, context.DeadlineExceeded) || err != nil && !errors.Is(err, fault.NotSent) && !errors.Is(err, fault.OutcomeUnknown) {
								t.Errorf("got %v, want not_sent or outcome_unknown at once", err)
							}
							if errors.Is(err, fault.NotSent) {
								return
							}
						}
					})
				}
				for done.Load() < callers {
					call(t, c, "echo", `{}`)
				}
				end(t, c, r.Provider)
				going.Wait()
				<-c.Done()
			})
		}
	}
}

// runHasty answers a large call after its first bytes, and reads no more.
func runHasty() {
	in := bufio.NewReaderSize(os.Stdin, 4<<10)
	p := &faultPeer{}
	for {
		if _, err := in.Peek(1); err != nil {
			return
		}
		if head, _ := in.Peek(in.Buffered()); len(head) == 4<<10 {
			_, rest, _ := strings.Cut(string(head), `"id":`)
			id, _, _ := strings.Cut(rest, ",")
			fmt.Println(request{ID: json.RawMessage(id)}.failure(-32600, "far too much"))
			time.Sleep(time.Hour) //allow:sleep doing nothing is what this server does
		}
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var r request
		if json.Unmarshal([]byte(line), &r) == nil {
			for _, out := range p.answer(r) {
				fmt.Println(out)
			}
		}
	}
}

func TestAnswerCountsBeforeTheRequestIsWritten(t *testing.T) {
	t.Parallel()
	c := connect(t, mcp.Stdio(serverCommand("hasty"), &mcp.StdioOptions{Grace: brief}), &host{})
	args := `{"text":"` + strings.Repeat("x", 1<<20) + `"}`
	ctx := within(t)
	_, err := c.Call(ctx, &provider.CallRequest{Op: "echo", Args: json.RawMessage(args)})
	wantCode(t, err, fault.OpFailed)
	if ctx.Err() != nil {
		t.Error("the answer was seen only when the caller gave up")
	}
}
