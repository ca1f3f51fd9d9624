package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/bridle-dev/bridle/store"
)

func changedCases() []testCase {
	return []testCase{
		{"ChangedSignals", changedSignals},
		{"ChangedComesAfterTheCommit", changedComesAfterTheCommit},
		{"ChangedNeverBlocks", changedNeverBlocks},
		{"ChangedStop", changedStop},
		{"ChangedWakesAWorker", changedWakesAWorker},
	}
}

func exactSignalCases() []testCase {
	return []testCase{
		{"ExactSignals", exactSignals},
		{"SignalsCoalesce", signalsCoalesce},
		{"EachUpdateSignals", eachUpdateSignals},
	}
}

func changedSignals(k *kit) {
	k.putAll("b", []string{"doomed/1"})
	watches := []struct{ bucket, prefix string }{
		{"b", ""}, {"b", "in/"}, {"b", "in/1"}, {"b", "doomed/"}, {"c", ""}, {"c", "\xff"}, {"b", "in/"},
	}
	var signals []<-chan struct{}
	for _, w := range watches {
		changed, stop := k.store.Changed(w.bucket, w.prefix)
		defer stop()
		signals = append(signals, changed)
	}
	k.update(func(tx store.Tx) error {
		k.must("Put", tx.Put("b", "in/1", nil))
		k.must("Delete", tx.Delete("b", "doomed/1"))
		return tx.Put("c", "\xff\xff", nil)
	})
	for i, w := range watches {
		k.await(fmt.Sprintf("Changed(%q, %q)", w.bucket, w.prefix), signals[i])
	}
	k.put("b", "in/2", "")
	k.await("the second change", signals[0])
	k.await("the second change", signals[1])
}

// changedComesAfterTheCommit looks at the store on each signal: what caused it
// must be visible.
func changedComesAfterTheCommit(k *kit) {
	const last = 20
	changed, stop := k.store.Changed("b", "n")
	defer stop()
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for i := range last + 1 {
			if err := k.store.Update(k.ctx, func(tx store.Tx) error {
				return tx.Put("b", "n", []byte(fmt.Sprint(i)))
			}); err != nil {
				k.Errorf("Update: %v", err)
			}
		}
	})
	for done := false; !done; {
		k.await("a change, the last one not seen yet", changed)
		k.view(func(tx store.Tx) error {
			value, _, err := tx.Get("b", "n")
			done = string(value) == fmt.Sprint(last)
			return err
		})
	}
}

func changedNeverBlocks(k *kit) {
	for range 3 {
		_, stop := k.store.Changed("b", "")
		defer stop()
	}
	for i := range 10 {
		k.put("b", fmt.Sprint(i), "")
	}
}

func changedStop(k *kit) {
	changed, stop := k.store.Changed("b", "")
	other, stopOther := k.store.Changed("b", "")
	defer stopOther()
	stop()
	stop()
	k.put("b", "k", "")
	k.await("another watcher", other)
	select {
	case _, ok := <-changed:
		if !ok {
			k.Error("stop closed the channel")
		}
	default:
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, stop := k.store.Changed("b", "")
			k.put("b", "k", "")
			stop()
		})
	}
	all.Wait()
}

// changedWakesAWorker runs the loop that Changed is for: no item is left over.
func changedWakesAWorker(k *kit) {
	const items = 30
	changed, stop := k.store.Changed("queue", "")
	defer stop()
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for i := range items {
			if err := k.store.Update(k.ctx, func(tx store.Tx) error { return tx.Put("queue", fmt.Sprint(i), nil) }); err != nil {
				k.Errorf("Update: %v", err)
			}
		}
	})
	for taken := 0; taken < items; {
		var found []string
		k.update(func(tx store.Tx) error {
			found = k.keysIn(tx, "queue", store.Range{})
			for _, key := range found {
				k.must("Delete", tx.Delete("queue", key))
			}
			return nil
		})
		if taken += len(found); len(found) == 0 {
			k.await("an item", changed)
		}
	}
}

// quiet fails if a signal is waiting.
func (k *kit) quiet(what string, c <-chan struct{}) {
	k.Helper()
	select {
	case <-c:
		k.Errorf("%s: a signal without a cause", what)
	default:
	}
}

func exactSignals(k *kit) {
	k.putAll("b", []string{"in/1"})
	changed, stop := k.store.Changed("b", "in/")
	defer stop()
	k.quiet("at first", changed)
	k.put("b", "in", "")
	k.put("b", "io/", "")
	k.put("a", "in/1", "")
	k.quiet("other keys", changed)
	_ = k.store.Update(k.ctx, func(tx store.Tx) error {
		k.must("Put", tx.Put("b", "in/2", nil))
		return errors.New("rolled back")
	})
	k.quiet("a rollback", changed)
	k.view(func(tx store.Tx) error { _, _, err := tx.Get("b", "in/1"); return err })
	k.quiet("a View", changed)
	k.update(func(tx store.Tx) error {
		k.must("Put", tx.Put("b", "in/2", nil))
		k.quiet("before the commit", changed)
		return nil
	})
	k.wantSignal("a commit", changed)
}

func signalsCoalesce(k *kit) {
	changed, stop := k.store.Changed("b", "")
	defer stop()
	for i := range 5 {
		k.put("b", fmt.Sprint(i), "")
	}
	k.wantSignal("five commits", changed)
	k.quiet("five commits, second signal", changed)
	k.put("b", "k", "")
	k.wantSignal("a sixth", changed)
	stop()
	k.put("b", "k", "")
	k.quiet("after stop", changed)
}

// wantSignal fails unless a signal is waiting.
func (k *kit) wantSignal(what string, c <-chan struct{}) {
	k.Helper()
	select {
	case <-c:
	default:
		k.Errorf("%s: no signal when Update had returned", what)
	}
}
