package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

func contextCases() []testCase {
	return []testCase{
		{"CancelledBefore", cancelledBefore},
		{"CancelledBeforeCommit", cancelledBeforeCommit},
		{"DeadlineBeforeCommit", deadlineBeforeCommit},
		{"CancelledWhileWaiting", cancelledWhileWaiting},
	}
}

// gaveUp is the cause of the cancellations below.
type gaveUp struct{}

func (gaveUp) Error() string { return "gave up" }

// wantCancelled checks an error after ctx was cancelled with gaveUp.
func wantCancelled(k *kit, what string, err error) {
	k.Helper()
	k.wantCode(what, err, fault.Cancelled)
	if !errors.Is(err, context.Canceled) {
		k.Errorf("%s: error %v does not match context.Canceled", what, err)
	}
	if !errors.Is(err, gaveUp{}) {
		k.Errorf("%s: error %v does not wrap the context's cause", what, err)
	}
}

func cancelledBefore(k *kit) {
	ctx, cancel := context.WithCancelCause(k.ctx)
	cancel(gaveUp{})
	ran := func(store.Tx) error { k.Error("the function ran although ctx had ended"); return nil }
	wantCancelled(k, "Update", k.store.Update(ctx, ran))
	wantCancelled(k, "View", k.store.View(ctx, ran))
	k.put("b", "after", "1")
}

func cancelledBeforeCommit(k *kit) {
	ctx, cancel := context.WithCancelCause(k.ctx)
	err := k.store.Update(ctx, func(tx store.Tx) error {
		err := tx.Put("b", "new", nil)
		cancel(gaveUp{})
		return err
	})
	wantCancelled(k, "Update", err)
	k.wantMissing("b", "new")
	k.put("b", "after", "1")
}

func deadlineBeforeCommit(k *kit) {
	ctx, cancel := context.WithTimeout(k.ctx, 10*time.Millisecond)
	defer cancel()
	err := k.store.Update(ctx, func(tx store.Tx) error {
		err := tx.Put("b", "new", nil)
		<-ctx.Done()
		return err
	})
	k.wantCode("Update", err, fault.Timeout)
	if !errors.Is(err, context.DeadlineExceeded) {
		k.Errorf("error %v does not match context.DeadlineExceeded", err)
	}
	k.wantMissing("b", "new")
}

// cancelledWhileWaiting keeps one update open. Another whose ctx ends must come
// back all the same: an engine with a lock gives up waiting, one that detects
// conflicts at the commit never waited.
func cancelledWhileWaiting(k *kit) {
	var holder sync.WaitGroup
	inside, release := make(chan struct{}), make(chan struct{})
	holder.Go(func() {
		first := sync.OnceFunc(func() { close(inside) })
		k.update(func(tx store.Tx) error {
			first()
			<-release
			return tx.Put("b", "holder", nil)
		})
	})
	<-inside
	ctx, cancel := context.WithTimeout(k.ctx, 50*time.Millisecond)
	defer cancel()
	back := make(chan error, 1)
	go func() {
		back <- k.store.Update(ctx, func(tx store.Tx) error { return tx.Put("b", "waiter", nil) })
	}()
	select {
	case err := <-back:
		if err != nil {
			k.wantCode("Update that waited", err, fault.Timeout)
		}
	case <-k.ctx.Done():
		k.Error("Update kept waiting although ctx had ended")
	}
	close(release)
	holder.Wait()
	k.wantValue("b", "holder", "")
}
