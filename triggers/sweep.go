package triggers

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

const (
	// sweepEvery is how often old messages are looked for: rarely enough to cost
	// nothing beside what it removes.
	sweepEvery = time.Hour
	// sweepSize is how many are removed in one transaction, so that nobody waits
	// long for it.
	sweepSize = 64
)

// sweeper removes messages that are kept long enough, and later forgets them. Its
// methods are safe for concurrent use.
type sweeper struct {
	inbox *Inbox
	due   chan struct{} // has a token when there are more than are to be kept

	mu   sync.Mutex
	done int // messages done or dropped that are kept, as far as is known; guarded by mu
}

func newSweeper(i *Inbox) *sweeper { return &sweeper{inbox: i, due: make(chan struct{}, 1)} }

// noteEnd counts a message that has an outcome. Only when there are half as many
// again as are to be kept is it worth to look.
func (s *sweeper) noteEnd(state MessageState) {
	if state != Done && state != Dropped {
		return
	}
	s.mu.Lock()
	s.done++
	many := s.done > s.inbox.limits.MaxDone+max(s.inbox.limits.MaxDone/2, sweepSize)
	if many {
		s.done = 0 // until the sweep has counted anew
	}
	s.mu.Unlock()
	if many {
		select {
		case s.due <- struct{}{}:
		default:
		}
	}
}

// run sweeps from time to time until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.inbox.warn(nil, "old messages of the inbox could not be removed", err)
		}
		select {
		case <-tick.C:
		case <-s.due:
		case <-ctx.Done():
			return
		}
	}
}

// outcome is a message that has one, and since when.
type outcome struct {
	seq uint64
	at  time.Time
}

// sweep removes what is old at a time.
func (s *sweeper) sweep(ctx context.Context, now time.Time) error {
	over, dead, err := s.outcomes(ctx)
	if err != nil {
		return err
	}
	l := s.inbox.limits
	slices.SortFunc(over, func(a, b outcome) int { // newest first
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.seq, a.seq))
	})
	keep := slices.IndexFunc(over, func(o outcome) bool { return now.Sub(o.at) > l.KeepDone })
	if keep < 0 {
		keep = len(over)
	}
	keep = min(keep, l.MaxDone)
	s.mu.Lock()
	s.done = keep
	s.mu.Unlock()
	old := slices.Clone(over[keep:])
	for _, o := range dead {
		if now.Sub(o.at) > l.KeepDead {
			old = append(old, o)
		}
	}
	if err := s.remove(ctx, old); err != nil {
		return err
	}
	return s.forget(ctx, now.Add(-l.Remember))
}

// outcomes reads what has an outcome: done and dropped messages, and dead ones.
func (s *sweeper) outcomes(ctx context.Context) (over, dead []outcome, err error) {
	err = eachRecord(ctx, s.inbox.config.Store, endedBucket, func(rec store.Record) error {
		var at standing
		if err := readRecord(rec.Value, &at); err != nil {
			return err
		}
		seq, err := orderOf(rec.Key)
		if err != nil {
			return err
		}
		if at.State == Dead {
			dead = append(dead, outcome{seq, at.Updated.time()})
		} else {
			over = append(over, outcome{seq, at.Updated.time()})
		}
		return nil
	})
	return over, dead, err
}

// eachRecord calls f with the records of a bucket. It reads some at a time, so
// that no transaction is open while f runs.
func eachRecord(ctx context.Context, s store.Store, bucket string, f func(store.Record) error) error {
	r := store.Range{Limit: inboxPage}
	for {
		var page []store.Record
		err := s.View(ctx, func(tx store.Tx) error {
			page = page[:0]
			for rec, err := range tx.Scan(bucket, r) {
				if err != nil {
					return err
				}
				page = append(page, rec)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, rec := range page {
			if err := f(rec); err != nil {
				return err
			}
		}
		if len(page) < inboxPage {
			return nil
		}
		r.From = page[len(page)-1].Key + "\x00"
	}
}

// remove removes messages, unless they were retried meanwhile. Their ids stay
// known.
func (s *sweeper) remove(ctx context.Context, old []outcome) error {
	for some := range slices.Chunk(old, sweepSize) {
		var gone swept
		err := s.inbox.config.Store.Update(ctx, func(tx store.Tx) error {
			gone = swept{dead: map[ID]int{}}
			for _, o := range some {
				if err := gone.remove(tx, o); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		s.inbox.release(ctx, gone.unbegun...)
		for id, n := range gone.dead {
			if t := s.inbox.byID[id]; t != nil {
				t.book.add(func(b *TriggerStatus) { b.Dead -= n })
			}
		}
	}
	return nil
}

// swept is what a transaction removes.
type swept struct {
	dead    map[ID]int             // how many dead messages, by trigger
	unbegun []provider.ExecutionID // that never began, and have something put away
}

// remove removes one message.
func (gone *swept) remove(tx store.Tx, o outcome) error {
	key := orderKey(o.seq)
	now, ok, err := fetch[standing](tx, endedBucket, key)
	if err != nil || !ok || !now.Updated.time().Equal(o.at) {
		return err
	}
	record, ok, err := tx.Get(messagesBucket, key)
	if err != nil {
		return err
	}
	if ok {
		m, err := readStored(record)
		if err != nil {
			return err
		}
		if err := deleteParts(tx, o.seq, m.Large); err != nil {
			return err
		}
		if err := writeRecord(tx, forgetBucket, key, forgotten{ID: m.ID, At: m.At}); err != nil {
			return err
		}
		if m.Kept && !now.Begun {
			gone.unbegun = append(gone.unbegun, m.Execution)
		}
	}
	if now.State == Dead {
		gone.dead[now.Trigger]++
	}
	if err := tx.Delete(messagesBucket, key); err != nil {
		return err
	}
	return tx.Delete(endedBucket, key)
}

// forgotten is a message that is gone, and still known.
type forgotten struct {
	ID string    `json:"id"`
	At time.Time `json:"at"` // when it was accepted
}

// forget has events that were accepted before a time be new again if they come.
func (s *sweeper) forget(ctx context.Context, before time.Time) error {
	for {
		old, err := s.oldest(ctx, before)
		if len(old) == 0 || err != nil {
			return err
		}
		err = s.inbox.config.Store.Update(ctx, func(tx store.Tx) error {
			for _, rec := range old {
				if err := forgetOne(tx, rec); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// oldest reads some of those that were accepted before a time. They are kept in
// the order in which they were.
func (s *sweeper) oldest(ctx context.Context, before time.Time) (old []store.Record, err error) {
	err = s.inbox.config.Store.View(ctx, func(tx store.Tx) error {
		old = old[:0]
		for rec, err := range tx.Scan(forgetBucket, store.Range{Limit: sweepSize}) {
			if err != nil {
				return err
			}
			var f forgotten
			if err := readRecord(rec.Value, &f); err != nil {
				return err
			}
			if f.At.After(before) {
				return nil
			}
			old = append(old, rec)
		}
		return nil
	})
	return old, err
}

// forgetOne forgets an event, unless its id is that of a later one by now.
func forgetOne(tx store.Tx, rec store.Record) error {
	var f forgotten
	if err := readRecord(rec.Value, &f); err != nil {
		return err
	}
	value, ok, err := tx.Get(knownBucket, f.ID)
	if err != nil {
		return err
	}
	if ok {
		k, err := readKnown(value)
		if err != nil {
			return err
		}
		if orderKey(k.seq) == rec.Key {
			if err := tx.Delete(knownBucket, f.ID); err != nil {
				return err
			}
		}
	}
	return tx.Delete(forgetBucket, rec.Key)
}
