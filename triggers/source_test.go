package triggers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

type deployFailed struct {
	Service string `json:"service"`
	Build   int    `json:"build,omitempty"`
}

func deploys(opts *triggers.SourceOptions) *triggers.Source {
	return triggers.NewSource([]triggers.EventType{
		triggers.Declare[deployFailed]("deploy.failed"), triggers.Declare[deployFailed]("deploy.done"),
	}, opts)
}

func failed(id string) triggers.Emission {
	return triggers.Emission{Type: "deploy.failed", ID: provider.EventID(id), Payload: deployFailed{Service: "checkout"}}
}

// connect returns a connection that is released at the end.
func connect(t *testing.T, s *triggers.Source) provider.Conn {
	t.Helper()
	conns, err := s.Connect(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conns[0].Release(context.Background()) })
	return conns[0]
}

func listen(t *testing.T, c provider.Conn, event string, after provider.Cursor) provider.Subscription {
	t.Helper()
	l, _ := provider.Ability[provider.Listener](c)
	sub, err := l.Listen(t.Context(), &provider.ListenRequest{Event: event, After: after})
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// storing reads a subscription in batches until it ends, and keeps what it saw.
type storing struct {
	batches [][]provider.Event
	err     error
	done    chan struct{}
}

func store(sub provider.Subscription, before func([]provider.Event)) *storing {
	s := &storing{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for batch, err := range sub.(provider.Batcher).Batches() {
			if err != nil {
				s.err = err
				return
			}
			if before != nil {
				before(batch)
			}
			s.batches = append(s.batches, batch)
		}
	}()
	return s
}

func (s *storing) ids() (ids []string) {
	for _, batch := range s.batches {
		for _, e := range batch {
			ids = append(ids, string(e.ID))
		}
	}
	return ids
}

// emitting emits beside the test; the result is valid once the bubble is idle.
func emitting(ctx context.Context, s *triggers.Source, m triggers.Emission) *result {
	r := &result{}
	go func() { r.err, r.done = s.Emit(ctx, m), true }()
	return r
}

type result struct {
	err  error
	done bool
}

func TestEmitReturnsOnceTheEventIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deploys(nil)
		c := connect(t, s)
		commit := make(chan struct{})
		reader := store(listen(t, c, "deploy.failed", ""), func([]provider.Event) { <-commit })
		r := emitting(t.Context(), s, at(failed("a"), "of no meaning here"))
		synctest.Wait()
		if r.done {
			t.Error("Emit returned before the event was stored")
		}
		close(commit)
		synctest.Wait()
		if !r.done || r.err != nil {
			t.Errorf("Emit: %v, done %t", r.err, r.done)
		}
		c.Release(t.Context())
		<-reader.done
		want := provider.Event{Kind: provider.EventOccurred, ID: "a", Type: "deploy.failed",
			Payload: json.RawMessage(`{"service":"checkout"}`), Time: time.Now()}
		if diff := cmp.Diff([][]provider.Event{{want}}, reader.batches); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

func TestEveryoneWhoListensMustHaveStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deploys(nil)
		first, second := connect(t, s), connect(t, s)
		commit := make(chan struct{})
		store(listen(t, first, "deploy.failed", ""), nil)
		store(listen(t, second, "deploy.failed", ""), func([]provider.Event) { <-commit })
		store(listen(t, second, "deploy.done", ""), func([]provider.Event) { t.Error("an event of another type") })
		r := emitting(t.Context(), s, failed("a"))
		synctest.Wait()
		if r.done {
			t.Error("Emit returned before the second listener had stored the event")
		}
		close(commit)
		synctest.Wait()
		if !r.done || r.err != nil {
			t.Errorf("Emit: %v, done %t", r.err, r.done)
		}
	})
}

func TestWhatNobodyStoresIsNotAccepted(t *testing.T) {
	for name, end := range map[string]func(provider.Conn, provider.Subscription){
		"nobody listens":             nil,
		"the subscription is closed": func(_ provider.Conn, sub provider.Subscription) { sub.Close(context.Background()) },
		"the connection is released": func(c provider.Conn, _ provider.Subscription) { c.Release(context.Background()) },
		"the reader breaks off": func(_ provider.Conn, sub provider.Subscription) {
			for range sub.Events() {
				break
			}
		},
		"the store panics": func(_ provider.Conn, sub provider.Subscription) {
			defer func() { _ = recover() }()
			for range sub.Events() {
				panic("disk")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := deploys(nil)
				c := connect(t, s)
				if end == nil {
					listen(t, c, "deploy.done", "")
				}
				var r *result
				if end != nil {
					sub := listen(t, c, "deploy.failed", "")
					r = emitting(t.Context(), s, failed("a"))
					synctest.Wait()
					end(c, sub)
				} else {
					r = emitting(t.Context(), s, failed("a"))
				}
				synctest.Wait()
				if !r.done || !errors.Is(r.err, fault.Unavailable) {
					t.Errorf("got %v, done %t; want %s", r.err, r.done, fault.Unavailable)
				}
			})
		})
	}
}

func TestACallerWhoGivesUpLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deploys(nil)
		c := connect(t, s)
		sub := listen(t, c, "deploy.failed", "")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		given := emitting(short, s, failed("given-up"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !given.done || !errors.Is(given.err, fault.Timeout) {
			t.Errorf("got %v, done %t; want %s", given.err, given.done, fault.Timeout)
		}
		kept := emitting(t.Context(), s, failed("kept"))
		synctest.Wait()
		reader := store(sub, nil)
		synctest.Wait()
		if kept.err != nil || !kept.done {
			t.Errorf("Emit: %v", kept.err)
		}
		if diff := cmp.Diff([]string{"kept"}, reader.ids()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
		if err := s.Emit(short, failed("late")); !errors.Is(err, fault.Timeout) {
			t.Errorf("a context that has ended: got %v", err)
		}
	})
}

// TestACallerWhoGivesUpEndsNothing has the last event withdrawn while its subscription
// waits for those that came with it before.
func TestACallerWhoGivesUpEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deploys(nil)
		c := connect(t, s)
		reader := store(listen(t, c, "deploy.failed", ""), func([]provider.Event) { time.Sleep(time.Second) })
		for _, id := range []string{"first", "a", "b"} {
			emitting(t.Context(), s, failed(id))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.Emit(short, failed("given-up")); !errors.Is(err, fault.Timeout) {
			t.Errorf("got %v, want %s", err, fault.Timeout)
		}
		time.Sleep(time.Minute)
		if err := s.Emit(t.Context(), failed("kept")); err != nil {
			t.Errorf("the next one: %v", err)
		}
		c.Release(t.Context())
		<-reader.done
		if diff := cmp.Diff([]string{"first", "a", "b", "kept"}, reader.ids()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

func TestABadEmissionIsRefusedAndNotHandedOn(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    triggers.Emission
		code fault.Code
		path string
	}{
		{"payload of another shape", triggers.Emission{Type: "deploy.failed", ID: "a", Payload: map[string]any{"service": 7}}, fault.ArgsInvalid, "/service"},
		{"payload that lacks a field", triggers.Emission{Type: "deploy.failed", ID: "a", Payload: json.RawMessage(`{}`)}, fault.ArgsInvalid, "/service"},
		{"no payload", triggers.Emission{Type: "deploy.failed", ID: "a"}, fault.ArgsInvalid, ""},
		{"payload that is no JSON", triggers.Emission{Type: "deploy.failed", ID: "a", Payload: json.RawMessage(`{`)}, fault.ArgsInvalid, ""},
		{"payload that cannot be JSON", triggers.Emission{Type: "deploy.failed", ID: "a", Payload: make(chan int)}, fault.ArgsInvalid, "-"},
		{"no id", triggers.Emission{Type: "deploy.failed", Payload: deployFailed{Service: "checkout"}}, fault.ArgsInvalid, "-"},
		{"undeclared type", triggers.Emission{Type: "deploy.filed", ID: "a", Payload: deployFailed{Service: "checkout"}}, fault.OpUnknown, "-"},
		{"no type", triggers.Emission{ID: "a"}, fault.OpUnknown, "-"},
		{"only a cursor, from the host", triggers.Emission{Cursor: "7"}, fault.OpUnknown, "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := deploys(nil)
			c := connect(t, s)
			reader := store(listen(t, c, "deploy.failed", ""), nil)
			err := s.Emit(t.Context(), tt.m)
			fe, _ := errors.AsType[*fault.Error](err)
			if fe == nil || fe.Code != tt.code {
				t.Fatalf("got %v, want %s", err, tt.code)
			}
			if tt.path != "-" && (len(fe.Issues) != 1 || fe.Issues[0].Path != tt.path) {
				t.Errorf("issues: %v, want one at %q", fe.Issues, tt.path)
			}
			c.Release(t.Context())
			if <-reader.done; len(reader.batches) > 0 {
				t.Errorf("handed on: %v", reader.batches)
			}
		})
	}
}

// Members that the type lacks pass: senders add some over time.
func TestAPayloadMayHaveMoreThanItsType(t *testing.T) {
	s := deploys(nil)
	store(listen(t, connect(t, s), "deploy.failed", ""), nil)
	m := failed("a")
	m.Payload = json.RawMessage(`{"service":"checkout","since":{"day":3}}`)
	if err := s.Emit(t.Context(), m); err != nil {
		t.Error(err)
	}
}

func TestEventsGatherWhileOthersAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deploys(nil)
		commit := make(chan struct{})
		reader := store(listen(t, connect(t, s), "deploy.failed", ""), func([]provider.Event) { <-commit })
		const n = provider.MaxBatch + 11
		var results []*result
		for i := range n {
			results = append(results, emitting(t.Context(), s, failed(fmt.Sprint(i))))
			if i == 0 {
				synctest.Wait() // it is being stored while the others come
			}
		}
		synctest.Wait()
		close(commit)
		synctest.Wait()
		var sizes []int
		for _, b := range reader.batches {
			sizes = append(sizes, len(b))
		}
		if diff := cmp.Diff([]int{1, provider.MaxBatch, 10}, sizes); diff != "" {
			t.Errorf("sizes of batches (-want +got):\n%s", diff)
		}
		for i, r := range results {
			if !r.done || r.err != nil {
				t.Errorf("%d: %v, done %t", i, r.err, r.done)
			}
		}
	})
}

func TestEmittersThatComeBackAreStoredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := deploys(nil)
		const commit = time.Millisecond
		reader := store(listen(t, connect(t, s), "deploy.failed", ""), func([]provider.Event) { time.Sleep(commit) })
		const emitters, rounds = 3, 10
		var all sync.WaitGroup
		for e := range emitters {
			all.Go(func() {
				for n := range rounds {
					time.Sleep(time.Duration(e) * commit / 10) // none is as quick as the other
					if err := s.Emit(t.Context(), failed(fmt.Sprint(e, "-", n))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if got := len(reader.batches); got > emitters*rounds/2+1 { // two wait for the third at most
			t.Errorf("%d events of %d emitters were stored in %d batches", emitters*rounds, emitters, got)
		}
		began := time.Now()
		for n := range rounds {
			if err := s.Emit(t.Context(), failed(fmt.Sprint("alone-", n))); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > rounds*commit+commit/2 { // the others were waited for once
			t.Errorf("%d events of one emitter took %v, of which it was kept waiting %v", rounds, took, took-rounds*commit)
		}
	})
}

func TestMistakesInDeclarationsAreFoundByCheck(t *testing.T) {
	good := triggers.Declare[deployFailed]("deploy.failed")
	for name, s := range map[string]*triggers.Source{
		"nil":                 nil,
		"no events":           triggers.NewSource(nil, nil),
		"no name":             triggers.NewSource([]triggers.EventType{good, triggers.Declare[int]("")}, nil),
		"one name twice":      triggers.NewSource([]triggers.EventType{good, good}, nil),
		"no JSON":             triggers.NewSource([]triggers.EventType{triggers.Declare[chan int]("a")}, nil),
		"no schema":           triggers.NewSource([]triggers.EventType{{Name: "a", Payload: json.RawMessage(`{"type":7}`)}}, nil),
		"schema of elsewhere": triggers.NewSource([]triggers.EventType{{Name: "a", Payload: json.RawMessage(`{"$ref":"https://example.com/a"}`)}}, nil),
	} {
		fe, _ := errors.AsType[*fault.Error](s.Check())
		if fe == nil || fe.Code != fault.ConnectionInvalid || fe.Hint == "" {
			t.Errorf("%s: got %v, want %s with a hint", name, fe, fault.ConnectionInvalid)
		}
		if _, err := s.Connect(t.Context(), nil); !errors.Is(err, fault.ConnectionInvalid) {
			t.Errorf("%s: Connect: %v", name, err)
		}
		if err := s.Emit(t.Context(), failed("a")); !errors.Is(err, fault.ConnectionInvalid) {
			t.Errorf("%s: Emit: %v", name, err)
		}
	}
	if err := triggers.NewSource([]triggers.EventType{good, {Name: "anything"}}, nil).Check(); err != nil {
		t.Errorf("without a mistake: %v", err)
	}
}

func TestTheManifestHasTheEvents(t *testing.T) {
	s := triggers.NewSource([]triggers.EventType{
		{Name: "said", Title: "Said", Description: "Someone spoke.", Payload: json.RawMessage(`{"type":"string"}`), Thread: "/room"},
		{Name: "anything"},
	}, nil)
	c := connect(t, s)
	want := &provider.Manifest{Determinism: provider.Pure, Events: []provider.EventType{
		{Name: "said", Title: "Said", Description: "Someone spoke.", Payload: json.RawMessage(`{"type":"string"}`), Thread: "/room"},
		{Name: "anything"},
	}}
	if diff := cmp.Diff(want, c.Manifest()); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	if id := c.Identity(); id != (provider.Identity{Surface: "source", Instance: "source"}) {
		t.Errorf("identity: %+v", id)
	}
}
