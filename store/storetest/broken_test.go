package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// brokenStore breaks the contract in one way, which one case must notice.
type brokenStore struct {
	name       string
	rejectedBy string
	wrap       func(store.Store) store.Store
}

func broken() []brokenStore {
	return slices.Concat(brokenTransactions(), brokenConcurrency(), brokenContexts(), brokenValues(), brokenScans(), brokenSignals(), brokenClosing())
}

// commitAnyway commits what f wrote and returns f's error.
func commitAnyway(s store.Store, ctx context.Context, f func(store.Tx) error) (result error) {
	if err := s.Update(ctx, func(tx store.Tx) error { result = f(tx); return nil }); err != nil {
		return err
	}
	return result
}

// snapshotUpdate runs f on a snapshot and writes afterwards, without a check.
func snapshotUpdate(s store.Store, ctx context.Context, f func(store.Tx) error) error {
	var writes []func(store.Tx) error
	err := s.View(ctx, func(tx store.Tx) error {
		t := &fakeTx{Tx: tx}
		t.put = func(bucket, key string, value []byte) error {
			value = slices.Clone(value)
			writes = append(writes, func(tx store.Tx) error { return tx.Put(bucket, key, value) })
			return nil
		}
		t.delete = func(bucket, key string) error {
			writes = append(writes, func(tx store.Tx) error { return tx.Delete(bucket, key) })
			return nil
		}
		return f(t)
	})
	runtime.Gosched()
	if err != nil {
		return err
	}
	return s.Update(ctx, func(tx store.Tx) error {
		for _, write := range writes {
			if err := write(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

func brokenTransactions() []brokenStore {
	return []brokenStore{
		{"forgets_rollback", "Rollback", withUpdate(commitAnyway)},
		{"wraps_errors", "Rollback", withUpdate(func(s store.Store, ctx context.Context, f func(store.Tx) error) error {
			if err := s.Update(ctx, f); err != nil {
				return fmt.Errorf("update: %w", err)
			}
			return nil
		})},
		{"commits_after_panic", "PanicRollsBack", withUpdate(commitsAfterPanic)},
		{"swallows_panic", "PanicRollsBack", withUpdate(func(s store.Store, ctx context.Context, f func(store.Tx) error) error {
			defer func() { _ = recover() }()
			return s.Update(ctx, f)
		})},
		{"keeps_lock_after_goexit", "GoexitRollsBack", func(s store.Store) store.Store {
			var mu sync.Mutex
			return &fake{Store: s, update: func(ctx context.Context, f func(store.Tx) error) error {
				mu.Lock()
				err := s.Update(ctx, f)
				mu.Unlock()
				return err
			}}
		}},
		{"hides_own_writes", "ReadYourWrites", withUpdate(snapshotUpdate)},
		{"reads_each_value_anew", "ViewIsConsistent", readsAnew},
		{"writes_in_view", "ViewCannotWrite", func(s store.Store) store.Store {
			return &fake{Store: s, view: s.Update}
		}},
		{"loses_updates", "CountersAreSerializable", withUpdate(snapshotUpdate)},
		{"allows_write_skew", "NoWriteSkew", withUpdate(snapshotUpdate)},
		{"transactions_live_on", "TxEndsWithItsFunction", withTx(func(t *fakeTx) {
			t.put = func(bucket, key string, value []byte) error { _ = t.Tx.Put(bucket, key, value); return nil }
		})},
		{"scans_live_on", "TxEndsWithItsFunction", withScan(func(_ store.Tx, _ store.Range, all []store.Record) []store.Record { return all })},
	}
}

// together gives a store that is sound as long as nobody else updates it.
func together(broken func(s store.Store, ctx context.Context, f func(store.Tx) error) error) func(store.Store) store.Store {
	return func(s store.Store) store.Store {
		var active atomic.Int32
		return withUpdate(func(s store.Store, ctx context.Context, f func(store.Tx) error) error {
			defer active.Add(-1)
			alone := active.Add(1) == 1
			time.Sleep(100 * time.Microsecond) //allow:sleep the fake waits for others to come
			if alone {
				return s.Update(ctx, f)
			}
			return broken(s, ctx, f)
		})(s)
	}
}

func brokenConcurrency() []brokenStore {
	quiet := func(s store.Store) store.Store {
		aside := store.Memory()
		return together(func(_ store.Store, ctx context.Context, f func(store.Tx) error) error { return aside.Update(ctx, f) })(s)
	}
	return []brokenStore{
		{"commits_failures_of_groups", "UpdatesFailAlone", together(commitAnyway)},
		{"commits_panics_of_groups", "UpdatesFailAlone", together(commitsAfterPanic)},
		{"forgets_context_in_groups", "UpdatesFailAlone", together(func(s store.Store, ctx context.Context, f func(store.Tx) error) error {
			return s.Update(context.WithoutCancel(ctx), f)
		})},
		{"groups_do_not_see_each_other", "ConcurrentUpdatesAreSerializable", together(snapshotUpdate)},
		{"signals_one_of_a_group", "EachUpdateSignals", quiet},
	}
}

func commitsAfterPanic(s store.Store, ctx context.Context, f func(store.Tx) error) error {
	var panicked any
	err := s.Update(ctx, func(tx store.Tx) error {
		defer func() { panicked = recover() }()
		return f(tx)
	})
	if panicked != nil {
		panic(panicked)
	}
	return err
}

// readsAnew gives a View whose reads are of different moments.
func readsAnew(s store.Store) store.Store {
	return &fake{Store: s, view: func(ctx context.Context, f func(store.Tx) error) error {
		return s.View(ctx, func(tx store.Tx) error {
			t := &fakeTx{Tx: tx}
			t.get = func(bucket, key string) (value []byte, ok bool, err error) {
				time.Sleep(100 * time.Microsecond) //allow:sleep the fake widens its own race
				err = errors.Join(s.View(ctx, func(tx store.Tx) (err error) { value, ok, err = tx.Get(bucket, key); return err }))
				return value, ok, err
			}
			return f(t)
		})
	}}
}

func brokenContexts() []brokenStore {
	ignores := func(s store.Store, ctx context.Context, f func(store.Tx) error) error {
		return s.Update(context.WithoutCancel(ctx), f)
	}
	return []brokenStore{
		{"ignores_ended_context", "CancelledBefore", withUpdate(ignores)},
		{"ignores_cancellation", "CancelledBeforeCommit", withUpdate(ignores)},
		{"hides_the_cause", "CancelledBeforeCommit", withUpdate(func(s store.Store, ctx context.Context, f func(store.Tx) error) error {
			if err := s.Update(ctx, f); errors.Is(err, fault.Cancelled) {
				return context.Canceled
			} else {
				return err
			}
		})},
		{"ignores_deadline", "DeadlineBeforeCommit", withUpdate(ignores)},
		{"waits_without_context", "CancelledWhileWaiting", withUpdate(ignores)},
	}
}

func brokenValues() []brokenStore {
	return []brokenStore{
		{"empty_is_missing", "EmptyValuesExist", withTx(func(t *fakeTx) {
			t.get = func(bucket, key string) ([]byte, bool, error) {
				value, _, err := t.Tx.Get(bucket, key)
				return value, len(value) > 0, err
			}
		})},
		{"keeps_inputs", "InputsAreCopied", keepsSlices(true)},
		{"shares_outputs", "OutputsAreCopied", keepsSlices(false)},
		{"accepts_any_key", "KeyLimits", withTx(func(t *fakeTx) {
			t.put = func(bucket, key string, value []byte) error { _ = t.Tx.Put(bucket, key, value); return nil }
		})},
		{"cuts_long_keys", "KeyLimits", withTx(func(t *fakeTx) {
			t.put = func(bucket, key string, value []byte) error {
				return t.Tx.Put(bucket, key[:min(len(key), store.MaxKey-1)], value)
			}
		})},
		{"keys_are_text", "BinaryKeys", withTx(func(t *fakeTx) {
			t.put = func(bucket, key string, value []byte) error {
				return t.Tx.Put(bucket, strings.ToValidUTF8(key, "?"), value)
			}
		})},
		{"folds_buckets", "BucketsAreSeparate", withTx(func(t *fakeTx) {
			t.put = func(bucket, key string, value []byte) error {
				return t.Tx.Put(strings.ToLower(bucket), key, value)
			}
		})},
		{"delete_wants_a_record", "DeleteOfNothing", withTx(func(t *fakeTx) {
			t.delete = func(bucket, key string) error {
				if _, ok, _ := t.Tx.Get(bucket, key); !ok {
					return fault.New(fault.StoreFailed, "no such key")
				}
				return t.Tx.Delete(bucket, key)
			}
		})},
		{"cuts_values", "LargeValues", withTx(func(t *fakeTx) {
			t.put = func(bucket, key string, value []byte) error {
				return t.Tx.Put(bucket, key, value[:min(len(value), 1<<16)])
			}
		})},
	}
}

// keepsSlices gives back the very slices that came in, or went out before.
func keepsSlices(input bool) func(store.Store) store.Store {
	return func(s store.Store) store.Store {
		shared := map[string][]byte{}
		return withTx(func(t *fakeTx) {
			t.put = func(bucket, key string, value []byte) error {
				delete(shared, key)
				if input {
					shared[key] = value
				}
				return t.Tx.Put(bucket, key, value)
			}
			t.get = func(bucket, key string) ([]byte, bool, error) {
				value, ok, err := t.Tx.Get(bucket, key)
				if shared[key] == nil {
					shared[key] = value
				}
				return shared[key], ok, err
			}
		})(s)
	}
}

func brokenScans() []brokenStore {
	return []brokenStore{
		{"scans_unsorted", "ScanRanges", withScan(func(_ store.Tx, _ store.Range, all []store.Record) []store.Record {
			if len(all) > 2 {
				all[0], all[1] = all[1], all[0]
			}
			return all
		})},
		{"ignores_limit", "ScanRanges", changesRange(func(r *store.Range) { r.Limit = 0 })},
		{"negative_limit_is_none", "ScanRanges", changesRange(func(r *store.Range) { r.Limit = max(r.Limit, 0) })},
		{"ignores_reverse", "ScanRanges", changesRange(func(r *store.Range) { r.Reverse = false })},
		{"ignores_prefix", "ScanRanges", changesRange(func(r *store.Range) { r.Prefix = "" })},
		{"includes_the_end", "ScanRanges", changesRange(func(r *store.Range) {
			if r.To != "" {
				r.To += "\x00"
			}
		})},
		{"scans_once", "ScanStopsAndStartsAgain", withTx(func(t *fakeTx) {
			t.scan = func(bucket string, r store.Range) iter.Seq2[store.Record, error] {
				var ranged bool
				return func(yield func(store.Record, error) bool) {
					if !ranged {
						ranged = true
						t.Tx.Scan(bucket, r)(yield)
					}
				}
			}
		})},
		{"skips_after_delete", "ScanWhileDeleting", stepsByPosition},
		{"repeats_after_insert", "ScanWhileInserting", stepsByPosition},
		{"stops_at_deleted", "ScanOverDeletedBlock", withScan(func(tx store.Tx, r store.Range, all []store.Record) []store.Record {
			for i := range all {
				if r.Reverse && i > 0 && all[i-1].Key >= "key 01000" && all[i].Key < "key 00500" {
					return all[:i]
				}
			}
			return all
		})},
		{"forgets_long_values", "AgreesWithModel", withTx(func(t *fakeTx) {
			t.put = func(bucket, key string, value []byte) error {
				if len(value) == 277 {
					return nil
				}
				return t.Tx.Put(bucket, key, value)
			}
		})},
	}
}

func changesRange(change func(*store.Range)) func(store.Store) store.Store {
	return withTx(func(t *fakeTx) {
		t.scan = func(bucket string, r store.Range) iter.Seq2[store.Record, error] {
			change(&r)
			return t.Tx.Scan(bucket, r)
		}
	})
}

// stepsByPosition gives scans that count records, so that a write in the loop
// makes them skip or repeat some.
func stepsByPosition(s store.Store) store.Store {
	return withTx(func(t *fakeTx) {
		t.scan = func(bucket string, r store.Range) iter.Seq2[store.Record, error] {
			return func(yield func(store.Record, error) bool) {
				for n := 0; n < 3000; n++ {
					var at []store.Record
					for record := range t.Tx.Scan(bucket, store.Range{Prefix: r.Prefix, Reverse: r.Reverse, Limit: n + 1}) {
						at = append(at, record)
					}
					if len(at) <= n || n > 100 || !yield(at[n], nil) {
						return
					}
				}
			}
		}
	})(s)
}

func brokenSignals() []brokenStore {
	signals := func(changed func(s store.Store, bucket, prefix string) (<-chan struct{}, func())) func(store.Store) store.Store {
		return func(s store.Store) store.Store {
			return &fake{Store: s, changed: func(bucket, prefix string) (<-chan struct{}, func()) { return changed(s, bucket, prefix) }}
		}
	}
	never := signals(func(store.Store, string, string) (<-chan struct{}, func()) {
		return make(chan struct{}), func() {}
	})
	return []brokenStore{
		{"never_signals", "ChangedSignals", never},
		{"never_wakes", "ChangedWakesAWorker", never},
		{"takes_prefix_for_key", "ChangedSignals", signals(func(s store.Store, bucket, prefix string) (<-chan struct{}, func()) {
			return s.Changed(bucket, prefix+"/1")
		})},
		{"signals_before_commit", "ChangedComesAfterTheCommit", earlySignals},
		{"waits_for_watchers", "ChangedNeverBlocks", waitsForWatchers},
		{"stop_closes_the_channel", "ChangedStop", signals(func(s store.Store, bucket, prefix string) (<-chan struct{}, func()) {
			c := make(chan struct{})
			return c, sync.OnceFunc(func() { close(c) })
		})},
		{"stop_panics_twice", "ChangedStop", signals(func(s store.Store, bucket, prefix string) (<-chan struct{}, func()) {
			changed, stop := s.Changed(bucket, prefix)
			var stopped sync.WaitGroup
			stopped.Add(1)
			return changed, func() { stop(); stopped.Done() }
		})},
		{"signals_all_of_the_bucket", "ExactSignals", signals(func(s store.Store, bucket, _ string) (<-chan struct{}, func()) {
			return s.Changed(bucket, "")
		})},
		{"queues_signals", "SignalsCoalesce", queuesSignals},
	}
}

// watched keeps one channel for all watchers of a store.
func watched(s store.Store, size int, update func(signals chan struct{}, ctx context.Context, f func(store.Tx) error) error) store.Store {
	signals := make(chan struct{}, size)
	return &fake{Store: s,
		changed: func(string, string) (<-chan struct{}, func()) { return signals, func() {} },
		update:  func(ctx context.Context, f func(store.Tx) error) error { return update(signals, ctx, f) },
	}
}

func earlySignals(s store.Store) store.Store {
	return watched(s, 1, func(signals chan struct{}, ctx context.Context, f func(store.Tx) error) error {
		select {
		case signals <- struct{}{}:
		default:
		}
		time.Sleep(time.Millisecond) //allow:sleep the fake signals too early
		return s.Update(ctx, f)
	})
}

func waitsForWatchers(s store.Store) store.Store {
	return watched(s, 0, func(signals chan struct{}, ctx context.Context, f func(store.Tx) error) error {
		err := s.Update(ctx, f)
		signals <- struct{}{}
		return err
	})
}

func queuesSignals(s store.Store) store.Store {
	return watched(s, 100, func(signals chan struct{}, ctx context.Context, f func(store.Tx) error) error {
		err := s.Update(ctx, f)
		signals <- struct{}{}
		return err
	})
}

func brokenClosing() []brokenStore {
	closes := func(close func(s store.Store) func() error) func(store.Store) store.Store {
		return func(s store.Store) store.Store { return &fake{Store: s, close: close(s)} }
	}
	second := errors.New("closed already")
	return []brokenStore{
		{"works_after_close", "UseAfterClose", closes(func(store.Store) func() error { return func() error { return nil } })},
		{"second_close_fails", "CloseTwice", closes(func(s store.Store) func() error {
			var mu sync.Mutex
			var closed bool
			return func() error {
				mu.Lock()
				defer mu.Unlock()
				if closed {
					return second
				}
				closed = true
				return s.Close()
			}
		})},
		{"close_hangs", "CloseTwice", closes(func(store.Store) func() error { return func() error { select {} } })},
		{"close_is_not_for_many", "ConcurrentClose", closes(func(s store.Store) func() error {
			var mu sync.Mutex
			return func() error {
				if !mu.TryLock() {
					return second
				}
				return s.Close()
			}
		})},
		{"close_does_not_wait", "CloseWaits", closes(func(s store.Store) func() error {
			return func() error { go s.Close(); return nil }
		})},
		{"starts_empty", "RecordsSurvive", func(s store.Store) store.Store {
			return &fake{Store: s, reopen: store.Memory}
		}},
		{"logs_rollbacks", "RollbacksDoNotComeBack", logsRollbacks},
		{"two_handles", "ReopenWhileOpen", closes(func(store.Store) func() error { return func() error { return nil } })},
	}
}

// logsRollbacks gives a store whose log of writes, read when it is opened
// again, holds those of transactions that were rolled back.
func logsRollbacks(s store.Store) store.Store {
	log := store.Memory()
	f := withUpdate(func(s store.Store, ctx context.Context, run func(store.Tx) error) error {
		_ = log.Update(ctx, func(logged store.Tx) error {
			return s.Update(ctx, func(tx store.Tx) error {
				t := &fakeTx{Tx: tx}
				t.put = func(bucket, key string, value []byte) error {
					return errors.Join(logged.Put(bucket, key, value), tx.Put(bucket, key, value))
				}
				_ = run(t)
				return nil
			})
		})
		return nil
	})(s).(*fake)
	f.reopen = func() store.Store { return log }
	return f
}
