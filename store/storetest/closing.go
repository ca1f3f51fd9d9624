package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

func closeCases() []testCase {
	return []testCase{
		{"UseAfterClose", useAfterClose},
		{"CloseTwice", closeTwice},
		{"ConcurrentClose", concurrentClose},
		{"CloseWaits", closeWaits},
	}
}

func useAfterClose(k *kit) {
	k.put("b", "k", "1")
	before, stopBefore := k.store.Changed("b", "")
	k.must("Close", k.store.Close())
	ran := func(store.Tx) error { k.Error("the function ran in a closed store"); return nil }
	k.wantCode("Update", k.store.Update(k.ctx, ran), fault.Closed)
	k.wantCode("View", k.store.View(k.ctx, ran), fault.Closed)
	after, stopAfter := k.store.Changed("b", "")
	for _, c := range []<-chan struct{}{before, after} {
		select {
		case _, ok := <-c:
			if !ok {
				k.Error("Close closed a channel of Changed")
			}
		default:
		}
	}
	stopBefore()
	stopAfter()
}

func closeTwice(k *kit) {
	k.must("Close", k.store.Close())
	k.must("second Close", k.store.Close())
}

// concurrentClose closes from several goroutines in the middle of work.
func concurrentClose(k *kit) {
	var all sync.WaitGroup
	var commits atomic.Int32
	enough := make(chan struct{})
	once := sync.OnceFunc(func() { close(enough) })
	for worker := range 4 {
		all.Go(func() {
			defer once()
			for i := 0; ; i++ {
				err := k.store.Update(k.ctx, func(tx store.Tx) error {
					return tx.Put("b", fmt.Sprintf("%d/%d", worker, i), nil)
				})
				if err != nil {
					k.wantCode("Update while closing", err, fault.Closed)
					return
				}
				if commits.Add(1) > 20 {
					once()
				}
			}
		})
	}
	<-enough
	for range 4 {
		all.Go(func() {
			if err := k.store.Close(); err != nil {
				k.Errorf("Close: %v", err)
			}
		})
	}
	all.Wait()
}

// closeWaits closes while a transaction runs. Close must not return before it,
// and the transaction must commit.
func closeWaits(k *kit) {
	inside := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	closed := make(chan error, 1)
	all.Go(func() {
		<-inside
		closed <- k.store.Close()
	})
	first := sync.OnceFunc(func() { close(inside) })
	defer first()
	err := k.store.Update(k.ctx, func(tx store.Tx) error {
		k.must("Put", tx.Put("b", "k", nil))
		first()
		// Give Close time to go wrong; waiting longer changes nothing.
		wrong := time.NewTimer(30 * time.Millisecond)
		defer wrong.Stop()
		select {
		case <-closed:
			return errors.New("the call of Close returned while a transaction was running")
		case <-wrong.C:
		}
		k.wantValueIn(tx, "b", "k", "")
		return nil
	})
	k.must("Update that Close waits for", err)
	k.must("Close", <-closed)
}
