package harness_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

// counted is a provider that counts its open connections.
func counted(open *int, closed *int) *dialler {
	return of(func() []*line {
		*open++
		l := newLine("", "x")
		l.release = func(context.Context) error { *closed++; return nil }
		return []*line{l}
	})
}

func TestConnectionsOfATurnLiveAsLongAsIt(t *testing.T) {
	for name, c := range map[string]struct {
		graph steps.Step
		code  fault.Code
	}{
		"success": {steps.Call{ID: "c", Connection: "turn", Op: "x"}, ""},
		"failure": {steps.Sequence{ID: "s", Steps: []steps.Step{steps.Call{ID: "c", Connection: "turn", Op: "x"},
			steps.Call{ID: "d", Connection: "turn", Op: "nothing"}}}, fault.OpUnknown},
		"panic": {steps.Func("f", func(steps.Context, any) (any, error) { panic("f") }), fault.Panicked},
	} {
		t.Run(name, func(t *testing.T) {
			var opened, closed int
			h := open(t, harness.Config{Graph: c.graph})
			_, err := say(t, h, "hi", harness.ExecuteOptions{Connections: attached("turn", counted(&opened, &closed))}).Wait(t.Context())
			if c.code == "" && err != nil || c.code != "" && !errors.Is(err, c.code) {
				t.Errorf("got %v", err)
			}
			if opened != 1 || closed != 1 {
				t.Errorf("opened %d, closed %d when the turn had ended", opened, closed)
			}
			if got := past(t, h, typed(event.ConnectionClosed, "turn")); len(got) != 1 {
				t.Errorf("announced %v", got)
			}
			if got := h.Status().Connections; len(got) != 0 {
				t.Errorf("status shows %v", got)
			}
		})
	}
}

func TestConnectionsOfARunAreReleasedWithIt(t *testing.T) {
	var opened, closed int
	h := open(t, harness.Config{})
	o := &harness.RunOptions{Connections: attached("run", counted(&opened, &closed))}
	for range 2 {
		if _, err := h.Run(t.Context(), steps.Call{ID: "c", Connection: "run", Op: "x"}, nil, o); err != nil {
			t.Fatal(err)
		}
	}
	if opened != 2 || closed != 2 {
		t.Errorf("opened %d, closed %d", opened, closed)
	}
}

func TestAStepsConnectionIsOfferedOnlyToStepsThatListIt(t *testing.T) {
	var opened, closed int
	own := connection.Attach("own", connection.Entry{Provider: counted(&opened, &closed)})
	m := scripted.New(scripted.Say("1"), scripted.Say("2"), scripted.CallTool("own_x", nil), scripted.Say("3"))
	h := open(t, harness.Config{Model: m, Connections: attached("a", ops("x")), Graph: steps.Sequence{ID: "s", Steps: []steps.Step{
		steps.CallModel{ID: "m1", Tools: []steps.Tool{own, connection.Tools("a")}},
		steps.CallModel{ID: "m2"},
		steps.CallModel{ID: "m3", Tools: []steps.Tool{own}},
	}}})
	ask(t, h, "hi", nil)
	for n, want := range [][]string{{"own_x", "a_x"}, {"a_x"}, {"own_x"}} {
		if diff := cmp.Diff(want, toolNames(t, m, n)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", n+1, diff)
		}
	}
	if it := lastItem(t, m, 3); it.Failed {
		t.Errorf("the call came to %q", it.Text())
	}
	if opened != 1 || closed != 1 {
		t.Errorf("opened %d, closed %d", opened, closed)
	}
}

func TestARequiredConnectionOfATurnFailsTheTurn(t *testing.T) {
	p := ops("x")
	p.FailConnect(inmemory.Fault{Err: errors.New("down"), Times: -1})
	m := scripted.New(scripted.Say("never"))
	h := open(t, harness.Config{Model: m})
	_, err := say(t, h, "hi", harness.ExecuteOptions{Connections: connection.Set{"a": {Provider: p, Required: true}}}).Wait(t.Context())
	fe, _ := errors.AsType[*fault.Error](err)
	if fe == nil || fe.Code != fault.Unavailable || fe.Connection != "a" || fe.Hint == "" {
		t.Errorf("got %v", err)
	}
	if n := len(m.Requests()); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestAHangingConnectionOfATurnCostsAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, harness.Config{Model: scripted.New(scripted.Say("ok"))})
		began := time.Now()
		if got := ask(t, h, "hi", &harness.ExecuteOptions{Connections: attached("bad", hanging())}).Text; got != "ok" {
			t.Errorf("answer %q", got)
		}
		if took := time.Since(began); took > harness.Patience {
			t.Errorf("took %s", took)
		}
	})
}

func TestAReleaseThatHangsDelaysItsTurnNoLongerThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		p := of(func() []*line {
			l := newLine("", "x")
			l.release = func(context.Context) error { <-free; return nil }
			return []*line{l}
		})
		h := open(t, harness.Config{Model: scripted.New(scripted.Say("ok"))})
		began := time.Now()
		if got := ask(t, h, "hi", &harness.ExecuteOptions{Connections: attached("bad", p)}).Text; got != "ok" {
			t.Errorf("answer %q", got)
		}
		if took := time.Since(began); took > harness.ReleaseLimit+time.Second {
			t.Errorf("took %s", took)
		}
		if got := past(t, h, typed(event.Warning, "")); len(got) != 1 || got[0].Err == nil {
			t.Errorf("warnings %v", got)
		}
		close(free)
	})
}

func TestTheConnectionOfACutTurnEndsAfterItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		began := make(chan struct{}, 1)
		p := of(func() []*line {
			l := newLine("", "x")
			l.call = func(ctx context.Context, _ *provider.CallRequest) (*provider.CallResult, error) {
				began <- struct{}{}
				<-ctx.Done()
				order = append(order, "told")
				return nil, ctx.Err()
			}
			l.release = func(context.Context) error { order = append(order, "released"); return nil }
			return []*line{l}
		})
		h := open(t, harness.Config{Graph: steps.Call{ID: "c", Connection: "a", Op: "x"}})
		turn := say(t, h, "hi", harness.ExecuteOptions{Thread: "t", Connections: attached("a", p)})
		<-began
		if err := h.Abort(t.Context(), "t", "enough"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"told", "released"}, order); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		_, err := turn.Wait(t.Context())
		wantCode(t, err, fault.Cancelled)
	})
}

func TestASpawnedChildSeesTheConnectionsOfItsTurn(t *testing.T) {
	h := open(t, harness.Config{Connections: attached("h", ops("x")), Graph: steps.Spawn{ID: "s",
		Child: steps.Sequence{ID: "q", Steps: []steps.Step{
			steps.Call{ID: "c", Connection: "t", Op: "x"}, steps.Call{ID: "d", Connection: "h", Op: "x"}}}}})
	ask(t, h, "hi", &harness.ExecuteOptions{Connections: attached("t", ops("x"))})
}
