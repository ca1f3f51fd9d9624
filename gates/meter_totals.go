package gates

import (
	"cmp"
	"container/list"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/provider"
)

// maxTotals is how many connections, operations, threads and executions are
// each counted apart: some megabytes, more than one process has in use at once.
const maxTotals = 10_000

// Sum adds up calls.
type Sum struct {
	Calls   int64         // all of them
	Failed  int64         // those with an outcome other than success
	Bytes   int64         // of what came back
	Tokens  int64         // used by models
	Latency time.Duration // of all calls together
}

func (s *Sum) add(u Usage) {
	s.Calls += u.Calls
	if u.Outcome != "" {
		s.Failed += u.Calls
	}
	s.Bytes += u.Bytes
	s.Tokens += u.Tokens
	s.Latency += u.Latency
}

// OpSum is the sum of one operation.
type OpSum struct {
	// Connection and Op name the operation.
	Connection connection.Name
	Op         string
	// Sum is what its calls used.
	Sum Sum
}

// Totals is a [Meter] that adds up, in all and by connection, operation, thread
// and execution. It may be used concurrently.
//
// It keeps the 10,000 of each kind that were used last; what the others used
// stays in Total only. Nothing is kept beyond the process.
type Totals struct {
	mu         sync.Mutex
	total      Sum // guarded by mu, as the others are
	connection sums[connection.Name]
	op         sums[opKey]
	thread     sums[provider.ThreadID]
	execution  sums[provider.ExecutionID]
}

type opKey struct {
	connection connection.Name
	op         string
}

// NewTotals returns sums of nothing.
func NewTotals() *Totals {
	return &Totals{
		connection: newSums[connection.Name](), op: newSums[opKey](),
		thread: newSums[provider.ThreadID](), execution: newSums[provider.ExecutionID](),
	}
}

// Record adds one usage.
func (t *Totals) Record(_ context.Context, u Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total.add(u)
	t.connection.add(u.Connection, u)
	t.op.add(opKey{u.Connection, u.Op}, u)
	t.thread.add(u.Thread, u)
	t.execution.add(u.Execution, u)
}

// Total is the sum of everything.
func (t *Totals) Total() Sum {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// Connection is the sum of one connection; that of "" is the sum of all Go tools.
func (t *Totals) Connection(name connection.Name) Sum { return sumOf(t, &t.connection, name) }

// Op is the sum of one operation or read.
func (t *Totals) Op(name connection.Name, op string) Sum { return sumOf(t, &t.op, opKey{name, op}) }

// Thread is the sum of one conversation.
func (t *Totals) Thread(id provider.ThreadID) Sum { return sumOf(t, &t.thread, id) }

// Execution is the sum of one run.
func (t *Totals) Execution(id provider.ExecutionID) Sum { return sumOf(t, &t.execution, id) }

func sumOf[K comparable](t *Totals, s *sums[K], key K) Sum {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := s.rows[key]; ok {
		return at.Value.(*row[K]).sum
	}
	return Sum{}
}

// Ops yields the sums of the operations and reads, in the order of their
// connections' names and their own, as they were when the iteration began.
func (t *Totals) Ops() iter.Seq[OpSum] {
	return func(yield func(OpSum) bool) {
		for _, sum := range t.ops() {
			if !yield(sum) {
				return
			}
		}
	}
}

func (t *Totals) ops() []OpSum {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]OpSum, 0, len(t.op.rows))
	for key, at := range t.op.rows {
		all = append(all, OpSum{key.connection, key.op, at.Value.(*row[opKey]).sum})
	}
	slices.SortFunc(all, func(a, b OpSum) int {
		return cmp.Or(cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.Op, b.Op))
	})
	return all
}

// sums are sums by key, the least recently used of which make room.
type sums[K comparable] struct {
	rows map[K]*list.Element // of *row[K]
	used *list.List          // the last used first
}

type row[K comparable] struct {
	key K
	sum Sum
}

func newSums[K comparable]() sums[K] {
	return sums[K]{rows: map[K]*list.Element{}, used: list.New()}
}

func (s *sums[K]) add(key K, u Usage) {
	at, ok := s.rows[key]
	if !ok {
		at = s.used.PushFront(&row[K]{key: key})
		s.rows[key] = at
		s.bound()
	}
	s.used.MoveToFront(at)
	at.Value.(*row[K]).sum.add(u)
}

func (s *sums[K]) bound() {
	if len(s.rows) > maxTotals {
		oldest := s.used.Back()
		delete(s.rows, s.used.Remove(oldest).(*row[K]).key)
	}
}
