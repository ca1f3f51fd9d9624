package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"iter"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/bridle-dev/bridle/store/internal/engine"
)

// Memory returns an empty store that lives in memory and is gone after Close:
// the reference for other engines, and the one for tests.
//
// Views read a snapshot, so they neither wait for an Update nor hold one up.
// Updates run one at a time. Signals of Changed are exact and have been sent
// when Update returns. It starts no goroutines.
func Memory() Store {
	m := &memory{gate: engine.NewGate()}
	m.committed.Store(new(table))
	return m
}

// table holds all buckets in one tree. Its keys come from [tableKey]. Copying a
// table is cheap: the nodes are shared until one side writes.
type table = btree.Map[string, []byte]

type memory struct {
	gate      *engine.Gate
	watchers  engine.Watchers
	committed atomic.Pointer[table] // never written to, only replaced
}

func (m *memory) View(ctx context.Context, f func(Tx) error) error {
	leave, err := m.gate.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	tx := &memoryTx{table: m.committed.Load()}
	defer tx.finish()
	return f(tx)
}

func (m *memory) Update(ctx context.Context, f func(Tx) error) error {
	changes, err := m.update(ctx, f)
	if err != nil {
		return err
	}
	m.watchers.Signal(changes)
	return nil
}

func (m *memory) update(ctx context.Context, f func(Tx) error) (engine.Changes, error) {
	leave, err := m.gate.Write(ctx)
	if err != nil {
		return engine.Changes{}, err
	}
	defer leave()
	tx := &memoryTx{table: m.committed.Load().Copy(), writable: true}
	defer tx.finish()
	if err := f(tx); err != nil {
		return engine.Changes{}, err
	}
	if err := engine.Ended(ctx); err != nil {
		return engine.Changes{}, err
	}
	m.committed.Store(tx.table)
	return tx.changes, nil
}

func (m *memory) Changed(bucket, prefix string) (<-chan struct{}, func()) {
	return m.watchers.Changed(bucket, prefix)
}

func (m *memory) Close() error {
	m.gate.Close()
	m.committed.Store(new(table))
	return nil
}

// memoryTx is a transaction on a table: a shared one in a View, a copy of its
// own in an Update. Values in a table are never written to.
type memoryTx struct {
	table    *table
	changes  engine.Changes
	writable bool
	finished bool
}

func (t *memoryTx) finish() { t.finished = true }

func (t *memoryTx) Get(bucket, key string) ([]byte, bool, error) {
	if t.finished {
		return nil, false, engine.Finished()
	}
	value, ok := t.table.Get(tableKey(bucket, key))
	return bytes.Clone(value), ok, nil
}

func (t *memoryTx) Put(bucket, key string, value []byte) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	if err := engine.CheckKey(bucket, key, MaxKey); err != nil {
		return err
	}
	t.table.Set(tableKey(bucket, key), append([]byte{}, value...))
	t.changes.Add(bucket, key)
	return nil
}

func (t *memoryTx) Delete(bucket, key string) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	if _, had := t.table.Delete(tableKey(bucket, key)); had {
		t.changes.Add(bucket, key)
	}
	return nil
}

func (t *memoryTx) mayWrite() error {
	switch {
	case t.finished:
		return engine.Finished()
	case !t.writable:
		return engine.ReadOnly()
	}
	return nil
}

func (t *memoryTx) Scan(bucket string, r Range) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if t.finished {
			yield(Record{}, engine.Finished())
			return
		}
		left := r.Limit
		walk(t.snapshot(), tableRange(bucket, r), func(key string, value []byte) bool {
			if t.finished {
				yield(Record{}, engine.Finished())
				return false
			}
			record := Record{Key: key[len(tableKey(bucket, "")):], Value: bytes.Clone(value)}
			left--
			return yield(record, nil) && left != 0
		})
	}
}

// snapshot returns a table that does not change while it is walked.
func (t *memoryTx) snapshot() *table {
	if t.writable {
		return t.table.Copy()
	}
	return t.table
}

// walk calls visit for the records of a range, leaving Limit to visit, until
// visit returns false.
func walk(records *table, r Range, visit func(key string, value []byte) bool) {
	if r.Limit < 0 {
		return
	}
	from, to := r.Bounds()
	if !r.Reverse {
		records.Ascend(from, func(key string, value []byte) bool {
			return (to == "" || key < to) && visit(key, value)
		})
		return
	}
	down := func(key string, value []byte) bool {
		if key == to {
			return true
		}
		return key >= from && visit(key, value)
	}
	if to == "" {
		records.Reverse(down)
		return
	}
	records.Descend(to, down)
}

// tableKey joins bucket and key so that the keys of one bucket lie together, in
// their own order.
func tableKey(bucket, key string) string {
	joined := make([]byte, 0, binary.MaxVarintLen64+len(bucket)+len(key))
	joined = binary.AppendUvarint(joined, uint64(len(bucket)))
	joined = append(joined, bucket...)
	return string(append(joined, key...))
}

// tableRange turns a range of a bucket into one of the table.
func tableRange(bucket string, r Range) Range {
	r.Prefix, r.From = tableKey(bucket, r.Prefix), tableKey(bucket, r.From)
	if r.To != "" {
		r.To = tableKey(bucket, r.To)
	}
	return r
}
