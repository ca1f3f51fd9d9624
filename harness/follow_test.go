package harness_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// turnStore notes what its transactions write about executions. It is for turns that
// come one after the other.
type turnStore struct {
	store.Store
	// one is called after the first transaction that wrote about an execution, both
	// after those that wrote about two; nil are not.
	one, both func()
	each      []int // how many executions each wrote about, those without any left out
}

func (s *turnStore) Update(ctx context.Context, f func(store.Tx) error) error {
	var tx *turnTx
	err := s.Store.Update(ctx, func(real store.Tx) error {
		tx = &turnTx{Tx: real}
		return f(tx)
	})
	if err != nil || tx.executions == 0 {
		return err
	}
	if s.each = append(s.each, tx.executions); len(s.each) == 1 && s.one != nil {
		s.one()
	}
	if tx.executions == 2 && s.both != nil {
		s.both()
	}
	return nil
}

type turnTx struct {
	store.Tx
	executions int
}

func (tx *turnTx) Put(bucket, key string, value []byte) error {
	if bucket == "ledger/executions" {
		tx.executions++
	}
	return tx.Tx.Put(bucket, key, value)
}

// queued is a house in which three rings wait for their turns on one thread, the
// first of which goes on when goOn is closed. rang are those whose turns ran.
func queued(t *testing.T, s store.Store) (w *house, ids []string, goOn chan struct{}, rang *[]int) {
	began, goOn := make(chan struct{}, 3), make(chan struct{})
	rang = new([]int)
	w = inhabit(t, harness.Config{Store: s, Graph: graphOf(func(c steps.Context) (string, error) {
		ev, _ := c.Trigger()
		r, err := provider.Decode[chime](ev)
		*rang = append(*rang, r.N)
		began <- struct{}{}
		<-goOn
		return "", err
	})})
	for n := range 3 {
		ids = append(ids, w.ring(chime{N: n}))
	}
	<-began
	return w, ids, goOn, rang
}

func TestATurnBeginsInTheTransactionThatEndsTheOneBefore(t *testing.T) {
	s := &turnStore{Store: store.Memory()}
	w, ids, goOn, _ := queued(t, s)
	close(goOn)
	w.until(ids[2], triggers.Done)
	if err := w.h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1, 2, 2, 1}, s.each); diff != "" {
		t.Errorf("executions in transactions (-want +got):\n%s", diff)
	}
	for _, id := range ids {
		m := w.message(id)
		if x := w.executions()[m.Execution]; m.Attempts != 1 || x.Attempts != 1 || x.State != ledger.Done || x.Messages[0] != id {
			t.Errorf("%+v has execution %+v", m, x)
		}
	}
}

func TestADrainWaitsForATurnThatBeganWithTheEndOfAnother(t *testing.T) {
	s := &turnStore{Store: store.Memory()}
	drained := make(chan error, 1)
	w, ids, goOn, rang := queued(t, s)
	s.both = sync.OnceFunc(func() {
		go func() { drained <- w.h.Drain(context.WithoutCancel(t.Context())) }()
		for {
			if _, err := w.h.Manifest(t.Context(), "bell"); errors.Is(err, fault.Closed) {
				return // by now it takes no more work
			}
		}
	})
	close(goOn)
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 1}, *rang); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	if a, b, c := w.message(ids[0]), w.message(ids[1]), w.message(ids[2]); a.State != triggers.Done || b.State != triggers.Done || c.State != triggers.Pending || c.Attempts != 0 {
		t.Errorf("after the drain they are %+v, %+v and %+v", a, b, c)
	}
}

func TestADrainWaitsForATurnThatBeganWithItsEvent(t *testing.T) {
	s := &turnStore{Store: store.Memory()}
	drained := make(chan error, 1)
	w := inhabit(t, harness.Config{Store: s, Graph: graphOf(func(steps.Context) (string, error) { return "", nil })})
	s.one = func() {
		go func() { drained <- w.h.Drain(context.WithoutCancel(t.Context())) }()
		for ready := httptest.NewRecorder(); !strings.Contains(ready.Body.String(), `"drain"`); {
			w.h.Ready().ServeHTTP(ready, httptest.NewRequest(http.MethodGet, "/", nil))
		}
	}
	id := w.ring(chime{N: 1})
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	if m := w.message(id); m.State != triggers.Done || m.Attempts != 1 {
		t.Errorf("after the drain it is %+v", m)
	}
}

// TestATurnBehindAUsersIsAcceptedAlone has an event come while a user's turn runs on
// its thread.
func TestATurnBehindAUsersIsAcceptedAlone(t *testing.T) {
	s := &turnStore{Store: store.Memory()}
	goOn, began := make(chan struct{}), make(chan struct{}, 2)
	w := inhabit(t, harness.Config{Store: s, Graph: graphOf(func(steps.Context) (string, error) {
		began <- struct{}{}
		<-goOn
		return "", nil
	})})
	said, err := w.h.Execute(t.Context(), "hello", &harness.ExecuteOptions{Thread: "ring"})
	if err != nil {
		t.Fatal(err)
	}
	<-began
	id := w.ring(chime{N: 1})
	if m := w.message(id); m.State != triggers.Pending || m.Thread != "ring" {
		t.Errorf("beside a user's turn it is %+v", m)
	}
	close(goOn)
	if _, err := said.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	w.until(id, triggers.Done)
}
