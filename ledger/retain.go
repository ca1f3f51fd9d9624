package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"golang.org/x/sync/errgroup"
)

// endedKey orders executions by when they ended.
func endedKey(r *record) string { return fmt.Sprintf("%020d:%s", r.Updated.UnixNano(), r.ID) }

func inputKey(id provider.ExecutionID) string  { return string(id) + "@input" }
func outputKey(id provider.ExecutionID) string { return string(id) + "@output" }

// Trim removes executions that ended, the oldest first: all that ended before a
// time, and those beyond the number to keep. Each goes as a whole, in a
// transaction of its own, with whatever also removes in it; one that runs, or may
// be resumed after a crash, stays. Several go at a time, so that they share commits.
// It returns those it removed. also may be called concurrently.
func (l *Ledger) Trim(ctx context.Context, keep int, before time.Time, also func(store.Tx, provider.ExecutionID) error) ([]provider.ExecutionID, error) {
	var ended []store.Record
	err := l.store.View(ctx, func(tx store.Tx) error {
		ended = ended[:0]
		for rec, err := range tx.Scan(endedBucket, store.Range{}) {
			if err != nil {
				return err
			}
			ended = append(ended, rec)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	limit := fmt.Sprintf("%020d", before.UnixNano())
	gone := make([]bool, len(ended))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(trimmedAtOnce)
	for i, rec := range ended {
		if len(ended)-i <= keep && rec.Key >= limit || ctx.Err() != nil {
			break
		}
		all.Go(func() (err error) {
			gone[i], err = l.remove(ctx, rec.Key, provider.ExecutionID(rec.Value), also)
			return err
		})
	}
	err = all.Wait()
	var removed []provider.ExecutionID
	for i, rec := range ended {
		if gone[i] {
			removed = append(removed, provider.ExecutionID(rec.Value))
		}
	}
	return removed, err
}

// trimmedAtOnce is enough for removals to share commits, and few beside what else
// is written.
const trimmedAtOnce = 16

// remove deletes an execution unless it was resumed meanwhile.
func (l *Ledger) remove(ctx context.Context, key string, id provider.ExecutionID, also func(store.Tx, provider.ExecutionID) error) (gone bool, err error) {
	err = l.store.Update(ctx, func(tx store.Tx) error {
		_, there, err := tx.Get(endedBucket, key)
		if gone = there; !there || err != nil {
			return err
		}
		for _, bucket := range []string{entriesBucket, largeBucket, rerunsBucket} {
			if err := clear(tx, bucket, entryPrefix(id)); err != nil {
				return err
			}
		}
		for _, prefix := range []string{inputKey(id) + ":", outputKey(id) + ":"} {
			if err := clear(tx, largeBucket, prefix); err != nil {
				return err
			}
		}
		r, err := load(tx, id)
		if err != nil {
			return err
		}
		if r != nil {
			if err := l.Forget(tx, r.Messages...); err != nil {
				return err
			}
		}
		if err := l.forgetJoined(tx, id); err != nil {
			return err
		}
		for _, rec := range [][2]string{{executionsBucket, string(id)}, {attemptsBucket, string(id)}, {endedBucket, key}} {
			if err := tx.Delete(rec[0], rec[1]); err != nil {
				return err
			}
		}
		if also == nil {
			return nil
		}
		return also(tx, id)
	})
	return gone, err
}

// clear deletes the keys with a prefix.
func clear(tx store.Tx, bucket, prefix string) error {
	var keys []string
	for rec, err := range tx.Scan(bucket, store.Range{Prefix: prefix}) {
		if err != nil {
			return err
		}
		keys = append(keys, rec.Key)
	}
	for _, key := range keys {
		if err := tx.Delete(bucket, key); err != nil {
			return err
		}
	}
	return nil
}
