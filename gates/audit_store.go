package gates

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

const (
	auditBucket  = "audit"      // a line for each record, by its number
	auditHead    = "audit/head" // one entry, the Head
	auditHeadKey = "head"
	auditBatch   = 256 // records of one transaction, so that it stays short
	auditPage    = 256 // records that are read at once
)

// StoreSink keeps records in a store, in the buckets "audit" and "audit/head".
// The chain goes on after a restart, and is one chain for all who write to the
// store. Records of calls that end at the same time share a transaction.
//
// [VerifyStore] checks what is kept, [StoredRecords] reads it.
func StoreSink(s store.Store) Sink { return &storeSink{store: s, turn: newTurn()} }

type storeSink struct {
	store store.Store
	turn  turn

	mu      sync.Mutex
	waiting []*waitingRecord // guarded by mu
}

type waitingRecord struct {
	record *Record
	done   chan error // takes one
}

// Write queues the record. Whoever gets the turn writes all that wait.
func (s *storeSink) Write(ctx context.Context, r *Record) error {
	w := &waitingRecord{r, make(chan error, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	for {
		select {
		case err := <-w.done:
			return err
		default:
		}
		select {
		case err := <-w.done:
			return err
		case s.turn <- struct{}{}:
			s.flush(ctx)
		case <-ctx.Done():
			if s.withdraw(w) {
				return fault.From(context.Cause(ctx), fault.Cancelled)
			}
			return <-w.done // another writer has it in hand
		}
	}
}

// flush writes the records that wait and passes the turn on. As they are of
// others too, they are written even if the writer's own context ends meanwhile.
func (s *storeSink) flush(ctx context.Context) {
	defer s.turn.pass()
	batch := s.take()
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sinkTimeout)
	defer cancel()
	err := error(fault.AuditFailed) // what the others hear if the store panics
	defer func() {
		for _, w := range batch {
			w.done <- err
		}
	}()
	err = s.store.Update(ctx, func(tx store.Tx) error { return appendRecords(tx, batch) })
}

func (s *storeSink) take() []*waitingRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), auditBatch)
	batch := s.waiting[:n:n]
	s.waiting = append([]*waitingRecord(nil), s.waiting[n:]...)
	return batch
}

// withdraw takes a record back that nobody has begun to write.
func (s *storeSink) withdraw(w *waitingRecord) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.waiting {
		if s.waiting[i] == w {
			s.waiting = append(s.waiting[:i:i], s.waiting[i+1:]...)
			return true
		}
	}
	return false
}

func appendRecords(tx store.Tx, batch []*waitingRecord) error {
	head, err := storedHead(tx)
	if err != nil {
		return err
	}
	for _, w := range batch {
		linked, line := seal(w.record, head)
		if err := tx.Put(auditBucket, auditKey(linked.Seq), line); err != nil {
			return err
		}
		head = linked.head()
	}
	value, err := json.Marshal(head)
	if err != nil {
		return fault.New(fault.AuditFailed, "encode the head of the log: %w", err)
	}
	return tx.Put(auditHead, auditHeadKey, value)
}

func storedHead(tx store.Tx) (head Head, err error) {
	value, ok, err := tx.Get(auditHead, auditHeadKey)
	if err != nil || !ok {
		return Head{}, err
	}
	if err := json.Unmarshal(value, &head); err != nil {
		return Head{}, fault.New(fault.AuditFailed, "the head of the log is damaged: %w", err)
	}
	return head, nil
}

func lastStored(ctx context.Context, s store.Store) (head Head, err error) {
	err = s.View(ctx, func(tx store.Tx) error {
		head, err = storedHead(tx)
		return err
	})
	return head, err
}

// auditKey orders records by their numbers.
func auditKey(seq int64) string { return fmt.Sprintf("%020d", seq) }

// StoredRecords yields the records that a [StoreSink] keeps in s, in their
// order, as long as ctx has not ended. It does not check the chain; a record that
// cannot be read is an audit_failed error and the last.
func StoredRecords(ctx context.Context, s store.Store) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for line, err := range storedLines(ctx, s) {
			if err != nil {
				yield(nil, err)
				return
			}
			r, wrong := unseal(line)
			if wrong != "" {
				yield(nil, fault.New(fault.AuditFailed, "a record %s", wrong))
				return
			}
			if !yield(&r, nil) {
				return
			}
		}
	}
}

func storedLines(ctx context.Context, s store.Store) iter.Seq2[[]byte, error] {
	return storedLinesFrom(ctx, s, 0)
}

// storedLinesFrom reads in pages, since a transaction must be short.
func storedLinesFrom(ctx context.Context, s store.Store, seq int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for from := auditKey(seq); ; {
			page, err := storedPage(ctx, s, from)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, rec := range page {
				if !yield(rec.Value, nil) {
					return
				}
			}
			if len(page) < auditPage {
				return
			}
			from = page[len(page)-1].Key + "\x00"
		}
	}
}

func storedPage(ctx context.Context, s store.Store, from string) (page []store.Record, err error) {
	err = s.View(ctx, func(tx store.Tx) error {
		page = nil
		for rec, err := range tx.Scan(auditBucket, store.Range{From: from, Limit: auditPage}) {
			if err != nil {
				return err
			}
			page = append(page, rec)
		}
		return nil
	})
	return page, err
}
