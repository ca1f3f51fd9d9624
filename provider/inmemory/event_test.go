package inmemory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

func ticking(keep int, replay provider.Replay) *inmemory.Provider {
	return inmemory.New(inmemory.Options{Surface: "clock", Keep: keep,
		Events: map[string]provider.EventType{"ticked": {Replay: replay}}})
}

func listen(t *testing.T, c provider.Conn, after provider.Cursor) provider.Subscription {
	t.Helper()
	l, _ := provider.Ability[provider.Listener](c)
	sub, err := l.Listen(t.Context(), &provider.ListenRequest{Event: "ticked", After: after})
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// pull reads n elements of a stream as short lines, and closes it.
func pull(t *testing.T, sub provider.Subscription, n int) []string {
	t.Helper()
	var got []string
	for e, err := range sub.Events() {
		switch {
		case err != nil:
			t.Fatalf("after %v: %v", got, err)
		case e.Kind == provider.EventOccurred:
			got = append(got, string(e.Payload))
		default:
			got = append(got, fmt.Sprintf("%s@%s", e.Kind, e.Cursor))
		}
		if len(got) == n {
			break
		}
	}
	if err := sub.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return got
}

func TestCursors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		keep   int
		replay provider.Replay
		after  provider.Cursor
		want   []string // after five events before Listen and one after it
	}{
		{"from now on", 0, provider.ReplayCursor, "", []string{"6"}},
		{"after the third", 0, provider.ReplayCursor, "3", []string{"4", "5", "6"}},
		{"from the beginning", 0, provider.ReplayCursor, "0", []string{"1", "2", "3", "4", "5", "6"}},
		{"at the end", 0, provider.ReplayCursor, "5", []string{"6"}},
		{"older than what is kept", 2, provider.ReplayCursor, "1", []string{"gap@4", "5", "6"}},
		{"just what is kept", 3, provider.ReplayCursor, "3", []string{"4", "5", "6"}},
		{"ahead of everything", 0, provider.ReplayCursor, "99", []string{"gap@5", "6"}},
		{"live stream, older cursor", 0, provider.ReplayLive, "3", []string{"gap@5", "6"}},
		{"live stream, cursor at the end", 0, provider.ReplayLive, "5", []string{"6"}},
		{"everything kept", -1, provider.ReplayCursor, "0", []string{"1", "2", "3", "4", "5", "6"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := ticking(tt.keep, tt.replay)
			c := connect(t, p)
			for n := range 5 {
				p.Emit("ticked", n+1)
			}
			sub := listen(t, c, tt.after)
			if sub.Cursor() == "" {
				t.Error("no starting cursor")
			}
			p.Emit("ticked", 6)
			if diff := cmp.Diff(tt.want, pull(t, sub, len(tt.want))); diff != "" {
				t.Errorf("%s", diff)
			}
		})
	}
}

func TestMalformedCursorIsRefused(t *testing.T) {
	l, _ := provider.Ability[provider.Listener](connect(t, ticking(0, provider.ReplayCursor)))
	_, err := l.Listen(t.Context(), &provider.ListenRequest{Event: "ticked", After: "yesterday"})
	if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Code != fault.OpFailed || fe.PeerCode != "invalid_cursor" {
		t.Errorf("got %v", err)
	}
}

func TestSlowSubscriberGetsAGapAndHoldsUpNobody(t *testing.T) {
	p := ticking(3, provider.ReplayCursor)
	sub := listen(t, connect(t, p), "")
	for n := range 10 {
		p.Emit("ticked", n+1)
	}
	if diff := cmp.Diff([]string{"gap@7", "8", "9", "10"}, pull(t, sub, 4)); diff != "" {
		t.Error(diff)
	}
}

func TestForgetAndAdvance(t *testing.T) {
	p := ticking(0, provider.ReplayCursor)
	sub := listen(t, connect(t, p), "")
	p.Emit("ticked", 1)
	p.Forget("ticked")
	p.Advance("ticked")
	p.Emit("ticked", 3)
	if diff := cmp.Diff([]string{"gap@1", "cursor@2", "3"}, pull(t, sub, 3)); diff != "" {
		t.Error(diff)
	}
}

func TestEventsOutliveAConnection(t *testing.T) {
	p := ticking(0, provider.ReplayCursor)
	first := connect(t, p)
	start := listen(t, first, "").Cursor()
	p.Emit("ticked", 1)
	p.Drop()
	p.Emit("ticked", 2)
	if diff := cmp.Diff([]string{"1", "2"}, pull(t, listen(t, connect(t, p), start), 2)); diff != "" {
		t.Error(diff)
	}
}

func TestStreamsEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*inmemory.Provider, provider.Conn, provider.Subscription)
		code fault.Code
	}{
		{"closed", func(_ *inmemory.Provider, _ provider.Conn, s provider.Subscription) { s.Close(context.Background()) }, ""},
		{"dropped", func(p *inmemory.Provider, _ provider.Conn, _ provider.Subscription) { p.Drop() }, fault.Unavailable},
		{"released", func(_ *inmemory.Provider, c provider.Conn, _ provider.Subscription) { c.Release(context.Background()) }, fault.Closed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := ticking(0, provider.ReplayCursor)
				c := connect(t, p)
				sub := listen(t, c, "")
				var last error
				ended := false
				go func() {
					for _, err := range sub.Events() {
						last = err
					}
					ended = true
				}()
				synctest.Wait()
				tt.end(p, c, sub)
				synctest.Wait()
				if !ended || (tt.code == "") != (last == nil) || (tt.code != "" && !errors.Is(last, tt.code)) {
					t.Errorf("ended %v with %v, want %q", ended, last, tt.code)
				}
				for _, err := range sub.Events() {
					if err == nil {
						t.Error("a subscription was read twice")
					}
				}
			})
		})
	}
}

func TestFilterIsThePeersBusiness(t *testing.T) {
	p := inmemory.New(inmemory.Options{
		Events: map[string]provider.EventType{"ticked": {Replay: provider.ReplayCursor}},
		Filter: func(_ string, args, payload []byte) bool { return string(args) == string(payload) },
	})
	l, _ := provider.Ability[provider.Listener](connect(t, p))
	sub, err := l.Listen(t.Context(), &provider.ListenRequest{Event: "ticked", Args: []byte("2")})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		p.Emit("ticked", n)
	}
	p.Advance("ticked")
	if diff := cmp.Diff([]string{"2", "cursor@4"}, pull(t, sub, 2)); diff != "" {
		t.Error(diff)
	}
}

func TestOperationsEmit(t *testing.T) {
	p := inmemory.New(inmemory.Options{
		Operations: map[string]inmemory.Operation{"op": inmemory.Func(
			func(_ context.Context, c *inmemory.Call, _ any) (provider.EventID, error) {
				return c.Emit("ticked", 7), nil
			})},
		Events: map[string]provider.EventType{"ticked": {}},
	})
	c := connect(t, p)
	sub := listen(t, c, "")
	res, err := call(t.Context(), c, "op")
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range sub.Events() {
		if err != nil || fmt.Sprintf("%q", e.ID) != string(res.Value) || string(e.Payload) != "7" || e.Type != "ticked" || e.Time.IsZero() {
			t.Errorf("got %+v, %v, want the event %s", e, err, res.Value)
		}
		break
	}
}

func TestIdentityIsReportedOnceWhenItChanged(t *testing.T) {
	p := inmemory.New(inmemory.Options{Surface: "clock",
		Operations: map[string]inmemory.Operation{"op": inmemory.Reply(1)},
		Events:     map[string]provider.EventType{"ticked": {}}})
	c := connect(t, p)
	sub := listen(t, c, "")
	results := func() []string {
		var got []string
		for range 2 {
			res, err := call(t.Context(), c, "op")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, instance(res.Identity))
		}
		return got
	}
	got := results()
	p.Reload()
	got = append(got, results()...)
	p.Replace()
	got = append(got, results()...)
	if diff := cmp.Diff([]string{"", "", "clock-1/1", "", "clock-2/", ""}, got); diff != "" {
		t.Error(diff)
	}
	p.Emit("ticked", 1)
	p.Emit("ticked", 2)
	got = nil
	for e := range sub.Events() {
		if got = append(got, instance(e.Identity)); len(got) == 2 {
			break
		}
	}
	if diff := cmp.Diff([]string{"clock-2/", ""}, got); diff != "" {
		t.Error(diff)
	}
	if c.Identity() != (provider.Identity{Surface: "clock", Instance: "clock-2"}) {
		t.Errorf("identity %+v", c.Identity())
	}
}

func instance(id *provider.Identity) string {
	if id == nil {
		return ""
	}
	return id.Instance + "/" + id.Epoch
}

func TestWatchersHearOfReplaceAndReload(t *testing.T) {
	for name, change := range map[string]func(*inmemory.Provider){
		"replace": (*inmemory.Provider).Replace,
		"reload":  (*inmemory.Provider).Reload,
		"fault":   func(p *inmemory.Provider) { p.Fail("ticked", inmemory.Fault{Replace: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := ticking(0, provider.ReplayLive)
				c := connect(t, p)
				w, _ := provider.Ability[provider.Watcher](c)
				heard := 0
				stop := w.Watch(func(provider.Change) { heard++ })
				defer stop()
				change(p)
				listen(t, c, "")
				time.Sleep(time.Second)
				synctest.Wait()
				if heard != 1 {
					t.Errorf("heard %d changes, want 1", heard)
				}
			})
		})
	}
}
