package gates_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// eachStore opens each kind of store for a test.
func eachStore(t *testing.T, test func(*testing.T, store.Store)) {
	t.Run("memory", func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		test(t, s)
	})
	t.Run("bolt", func(t *testing.T) {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "agent.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		test(t, s)
	})
}

func TestAStoreKeepsOneChainForAllSinks(t *testing.T) {
	eachStore(t, func(t *testing.T, s store.Store) {
		sinks := []gates.Sink{gates.StoreSink(s), gates.StoreSink(s)}
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 40 {
					r := aRecord(fmt.Sprint(worker, ".", i))
					if err := sinks[worker%2].Write(t.Context(), r); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		head, err := gates.VerifyStore(t.Context(), s, nil)
		if err != nil || head.Seq != 320 {
			t.Errorf("head %v, %v", head, err)
		}
		seen := map[string]bool{}
		for r, err := range gates.StoredRecords(t.Context(), s) {
			if err != nil {
				t.Fatal(err)
			}
			seen[r.Op] = true
		}
		if len(seen) != 320 {
			t.Errorf("%d different records, want 320", len(seen))
		}
	})
}

func TestAStoredChainSurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.db")
	for round := range 3 {
		s, err := bolt.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		writeRecords(t, gates.StoreSink(s), 2)
		if head, err := gates.VerifyStore(t.Context(), s, nil); err != nil || head.Seq != int64(2*round+2) {
			t.Errorf("round %d: head %v, %v", round, head, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := gates.StoreSink(s).Write(t.Context(), aRecord("op")); !errors.Is(err, fault.Closed) {
			t.Errorf("on a closed store: %v", err)
		}
	}
}

func TestAChangedStoreIsFound(t *testing.T) {
	key := func(n int) string { return fmt.Sprintf("%020d", n) }
	get := func(tx store.Tx, n int) []byte {
		value, ok, err := tx.Get("audit", key(n))
		if !ok || err != nil {
			t.Fatalf("record %d: %v, %v", n, ok, err)
		}
		return value
	}
	for name, c := range map[string]struct {
		change func(store.Tx) error
		seq    int64
	}{
		"altered": {func(tx store.Tx) error {
			return tx.Put("audit", key(2), []byte(strings.Replace(string(get(tx, 2)), `"sent":true`, `"sent":false`, 1)))
		}, 2},
		"removed":       {func(tx store.Tx) error { return tx.Delete("audit", key(300)) }, 300},
		"first removed": {func(tx store.Tx) error { return tx.Delete("audit", key(1)) }, 1},
		"last removed":  {func(tx store.Tx) error { return tx.Delete("audit", key(400)) }, 400},
		"repeated":      {func(tx store.Tx) error { return tx.Put("audit", key(401), get(tx, 400)) }, 401},
		"swapped": {func(tx store.Tx) error {
			two, three := get(tx, 2), get(tx, 3)
			return errors.Join(tx.Put("audit", key(2), three), tx.Put("audit", key(3), two))
		}, 2},
		"no head":   {func(tx store.Tx) error { return tx.Delete("audit/head", "head") }, 1},
		"old head":  {func(tx store.Tx) error { return tx.Put("audit/head", "head", []byte(`{"seq":399,"hash":"x"}`)) }, 400},
		"else head": {func(tx store.Tx) error { return tx.Put("audit/head", "head", []byte(`{"seq":400,"hash":"x"}`)) }, 400},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.Memory()
			defer s.Close()
			writeRecords(t, gates.StoreSink(s), 400)
			if err := s.Update(t.Context(), c.change); err != nil {
				t.Fatal(err)
			}
			head, err := gates.VerifyStore(t.Context(), s, nil)
			brokenAt(t, head, err, c.seq)
		})
	}
}

func TestAStoreWhoseEndWasCutIsFoundByAKnownHead(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	writeRecords(t, gates.StoreSink(s), 3)
	cut, err := gates.VerifyStore(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	writeRecords(t, gates.StoreSink(s), 2)
	known, err := gates.VerifyStore(t.Context(), s, &cut)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(t.Context(), func(tx store.Tx) error {
		value := fmt.Sprintf(`{"seq":%d,"hash":%q}`, cut.Seq, cut.Hash)
		return errors.Join(tx.Delete("audit", fmt.Sprintf("%020d", 4)), tx.Delete("audit", fmt.Sprintf("%020d", 5)),
			tx.Put("audit/head", "head", []byte(value)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gates.VerifyStore(t.Context(), s, nil); err != nil {
		t.Errorf("without a known head it cannot show: %v", err)
	}
	head, err := gates.VerifyStore(t.Context(), s, &known)
	brokenAt(t, head, err, 4)
}

// slowStore is a store whose first update waits until it is let go.
type slowStore struct {
	store.Store
	release chan struct{}
	updates int
}

func (s *slowStore) Update(ctx context.Context, f func(store.Tx) error) error {
	if s.updates++; s.updates == 1 {
		<-s.release
	}
	return s.Store.Update(ctx, f)
}

func TestRecordsThatWaitShareATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{Store: store.Memory(), release: make(chan struct{})}
		defer s.Close()
		sink := gates.StoreSink(s)
		var wg sync.WaitGroup
		for range 51 {
			wg.Go(func() { writeRecords(t, sink, 1) })
			synctest.Wait()
		}
		given, cancel := context.WithCancel(t.Context())
		cancel()
		if err := sink.Write(given, aRecord("given up")); !errors.Is(err, context.Canceled) {
			t.Errorf("a writer that gave up: %v", err)
		}
		close(s.release)
		wg.Wait()
		if head, err := gates.VerifyStore(t.Context(), s.Store, nil); err != nil || head.Seq != 51 {
			t.Errorf("head %v, %v, want 51 records and none of those given up", head, err)
		}
		if s.updates != 2 {
			t.Errorf("%d transactions for 51 records, want one for the first and one for those that waited", s.updates)
		}
	})
}

// panickyStore is a store that panics once.
type panickyStore struct {
	store.Store
	panicked bool
}

func (s *panickyStore) Update(ctx context.Context, f func(store.Tx) error) error {
	if !s.panicked {
		s.panicked = true
		panic("oh no")
	}
	return s.Store.Update(ctx, f)
}

func TestAStoreThatPanicsHoldsNobodyUp(t *testing.T) {
	s := &panickyStore{Store: store.Memory()}
	defer s.Close()
	sink := gates.StoreSink(s)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = sink.Write(t.Context(), aRecord("op"))
	}()
	writeRecords(t, sink, 1)
}

func BenchmarkStoreSink(b *testing.B) {
	s := store.Memory()
	defer s.Close()
	sink, r := gates.StoreSink(s), aRecord("add")
	b.ReportAllocs()
	for b.Loop() {
		if err := sink.Write(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
