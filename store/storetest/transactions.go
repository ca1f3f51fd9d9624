package storetest

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

func transactionCases() []testCase {
	return []testCase{
		{"Rollback", rollback},
		{"PanicRollsBack", panicRollsBack},
		{"GoexitRollsBack", goexitRollsBack},
		{"ReadYourWrites", readYourWrites},
		{"ViewIsConsistent", viewIsConsistent},
		{"ViewCannotWrite", viewCannotWrite},
		{"CountersAreSerializable", countersAreSerializable},
		{"NoWriteSkew", noWriteSkew},
		{"TxEndsWithItsFunction", txEndsWithItsFunction},
	}
}

// overwriteAll changes the record "kept", deletes "gone" and adds "new".
func overwriteAll(k *kit, tx store.Tx) {
	k.Helper()
	k.must("Put", tx.Put("b", "kept", []byte("changed")))
	k.must("Delete", tx.Delete("b", "gone"))
	k.must("Put", tx.Put("b", "new", []byte("1")))
	k.must("Put", tx.Put("other", "new", []byte("1")))
}

// wantUntouched checks that overwriteAll left no trace and the store works.
func wantUntouched(k *kit) {
	k.Helper()
	k.wantValue("b", "kept", "1")
	k.wantValue("b", "gone", "1")
	k.wantMissing("other", "new")
	k.wantKeys("after a rollback", k.keys("b", store.Range{}), []string{"gone", "kept"})
	k.put("b", "after", "1")
	k.wantValue("b", "after", "1")
}

func rollback(k *kit) {
	k.put("b", "kept", "1")
	k.put("b", "gone", "1")
	reason := errors.New("changed my mind")
	err := k.store.Update(k.ctx, func(tx store.Tx) error {
		overwriteAll(k, tx)
		return reason
	})
	if err != reason {
		k.Errorf("Update returned %v, want the function's own error", err)
	}
	if err := k.store.View(k.ctx, func(store.Tx) error { return reason }); err != reason {
		k.Errorf("View returned %v, want the function's own error", err)
	}
	wantUntouched(k)
}

func panicRollsBack(k *kit) {
	k.put("b", "kept", "1")
	k.put("b", "gone", "1")
	reason := errors.New("boom")
	recovered := func(run func()) (value any) {
		defer func() { value = recover() }()
		run()
		return nil
	}
	got := recovered(func() {
		_ = k.store.Update(k.ctx, func(tx store.Tx) error {
			overwriteAll(k, tx)
			panic(reason)
		})
	})
	if got != reason {
		k.Errorf("Update panicked with %v, want the function's own value", got)
	}
	if got := recovered(func() { _ = k.store.View(k.ctx, func(store.Tx) error { panic(reason) }) }); got != reason {
		k.Errorf("View panicked with %v, want the function's own value", got)
	}
	wantUntouched(k)
}

func goexitRollsBack(k *kit) {
	k.put("b", "kept", "1")
	k.put("b", "gone", "1")
	var left sync.WaitGroup
	left.Go(func() {
		_ = k.store.Update(k.ctx, func(tx store.Tx) error {
			overwriteAll(k, tx)
			skipNow()
			return nil
		})
	})
	left.Wait()
	wantUntouched(k)
}

// skipNow leaves the goroutine as t.FailNow and t.SkipNow do in a transaction.
func skipNow() { new(testing.T).SkipNow() }

func readYourWrites(k *kit) {
	k.putAll("b", []string{"a", "c"})
	k.update(func(tx store.Tx) error {
		k.must("Put", tx.Put("b", "b", []byte("1")))
		k.wantValueIn(tx, "b", "b", "1")
		k.must("Put", tx.Put("b", "b", []byte("2")))
		k.wantValueIn(tx, "b", "b", "2")
		k.must("Delete", tx.Delete("b", "a"))
		k.wantMissingIn(tx, "b", "a")
		k.wantKeys("own writes", k.keysIn(tx, "b", store.Range{}), []string{"b", "c"})
		k.must("Delete", tx.Delete("b", "b"))
		k.wantMissingIn(tx, "b", "b")
		k.must("Put", tx.Put("b", "a", []byte("back")))
		k.wantValueIn(tx, "b", "a", "back")
		k.must("Put", tx.Put("new bucket", "k", nil))
		k.wantKeys("a new bucket", k.keysIn(tx, "new bucket", store.Range{}), []string{"k"})
		return nil
	})
	k.wantKeys("after the commit", k.keys("b", store.Range{}), []string{"a", "c"})
	k.wantValue("b", "a", "back")
}

// viewIsConsistent moves money between two records while others check the sum.
func viewIsConsistent(k *kit) {
	k.put("b", "x", "100")
	k.put("b", "y", "0")
	transfer := func(tx store.Tx) error {
		x, y := k.number(tx, "x"), k.number(tx, "y")
		k.must("Put", tx.Put("b", "x", []byte(strconv.Itoa(x-1))))
		return tx.Put("b", "y", []byte(strconv.Itoa(y+1)))
	}
	const enough = 50
	stop := make(chan struct{})
	var views atomic.Int32
	var readers sync.WaitGroup
	defer readers.Wait()
	defer close(stop)
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				k.view(func(tx store.Tx) error {
					if x, y := k.number(tx, "x"), k.number(tx, "y"); x+y != 100 {
						k.Errorf("a View saw x = %d and y = %d of different moments", x, y)
					}
					return nil
				})
				views.Add(1)
			}
		})
	}
	for transfers := 0; transfers < enough || views.Load() < enough; transfers++ {
		k.update(transfer)
	}
}

// number reads a record of bucket "b" as a decimal.
func (k *kit) number(tx store.Tx, key string) int {
	k.Helper()
	value, _, err := tx.Get("b", key)
	k.must("Get", err)
	n, err := strconv.Atoi(string(value))
	k.must("number", err)
	return n
}

func viewCannotWrite(k *kit) {
	k.put("b", "kept", "1")
	k.view(func(tx store.Tx) error {
		k.wantCode("Put in a View", tx.Put("b", "new", nil), fault.StoreFailed)
		k.wantCode("Put in a new bucket in a View", tx.Put("new", "new", nil), fault.StoreFailed)
		k.wantCode("Delete in a View", tx.Delete("b", "kept"), fault.StoreFailed)
		k.wantCode("Delete of nothing in a View", tx.Delete("new", "none"), fault.StoreFailed)
		k.wantValueIn(tx, "b", "kept", "1")
		return nil
	})
	k.wantKeys("after writing in a View", k.keys("b", store.Range{}), []string{"kept"})
}

func countersAreSerializable(k *kit) {
	k.put("b", "n", "0")
	const rounds = 15
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				k.update(func(tx store.Tx) error {
					return tx.Put("b", "n", []byte(strconv.Itoa(k.number(tx, "n")+1)))
				})
			}
		})
	}
	all.Wait()
	k.wantValue("b", "n", strconv.Itoa(workers*rounds))
}

// noWriteSkew lets each of several updates write its own record only if nobody
// has written: under snapshot isolation alone two of them would.
func noWriteSkew(k *kit) {
	for round := range 10 {
		bucket := fmt.Sprintf("round %d", round)
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				k.update(func(tx store.Tx) error {
					if len(k.keysIn(tx, bucket, store.Range{})) > 0 {
						return nil
					}
					return tx.Put(bucket, fmt.Sprintf("worker %d", worker), nil)
				})
			})
		}
		all.Wait()
		if keys := k.keys(bucket, store.Range{}); len(keys) != 1 {
			k.Errorf("%d updates found the bucket empty, want 1: %q", len(keys), keys)
		}
	}
}

func txEndsWithItsFunction(k *kit) {
	k.putAll("b", []string{"a", "b", "c"})
	runs := map[string]func(func(store.Tx) error) error{
		"View":   func(f func(store.Tx) error) error { return k.store.View(k.ctx, f) },
		"Update": func(f func(store.Tx) error) error { return k.store.Update(k.ctx, f) },
	}
	for name, run := range runs {
		for _, result := range []error{nil, errors.New("rolled back")} {
			var escaped store.Tx
			var next func() (store.Record, error, bool)
			var stop func()
			_ = run(func(tx store.Tx) error {
				escaped = tx
				next, stop = iter.Pull2(tx.Scan("b", store.Range{}))
				if _, err, ok := next(); err != nil || !ok {
					k.Errorf("the first record of a pulled scan: %v, %v", err, ok)
				}
				return result
			})
			if _, err, ok := next(); !ok || !errors.Is(err, fault.StoreFailed) {
				k.Errorf("a scan continued after %s: %v, %v, want code %s", name, err, ok, fault.StoreFailed)
			}
			stop()
			wantFinished(k, name, escaped)
		}
	}
	k.wantKeys("after using finished transactions", k.keys("b", store.Range{}), []string{"a", "b", "c"})
}

func wantFinished(k *kit, name string, tx store.Tx) {
	k.Helper()
	_, _, err := tx.Get("b", "a")
	k.wantCode("Get after "+name, err, fault.StoreFailed)
	k.wantCode("Put after "+name, tx.Put("b", "new", nil), fault.StoreFailed)
	k.wantCode("Delete after "+name, tx.Delete("b", "a"), fault.StoreFailed)
	for _, err = range tx.Scan("b", store.Range{}) {
		if err == nil {
			break
		}
	}
	k.wantCode("Scan after "+name, err, fault.StoreFailed)
}
