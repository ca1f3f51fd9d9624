package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// Log writes one execution as it runs. A nil Log knows and writes nothing.
type Log struct {
	ledger *Ledger
	id     provider.ExecutionID
	now    func() time.Time
	number int      // of this attempt
	begun  *record  // as this attempt wrote it
	raw    []byte   // the same as it is in the store
	calls  int      // that earlier attempts sent
	leases []*Entry // that earlier attempts recorded
	cut    bool     // the earlier attempt did not end: its process did

	mu    sync.Mutex
	seq   int
	count int                                     // entries settled, of earlier attempts too
	known map[string]*Entry                       // of earlier attempts, by path, until they are met
	open  map[string]*Entry                       // pending now
	uses  map[string]map[string]provider.Identity // by path of what is not settled
	met   map[string]string                       // kinds of steps that run, by path

	concluded []Entry // that End writes

	reruns map[provider.Key]int // of calls, by the key of the first time
}

// Begin records that an execution begins, with its input, and whatever also
// writes in the same transaction. An id that is in use is EXECUTION_EXISTS.
func (l *Ledger) Begin(ctx context.Context, x Execution, input json.RawMessage, also func(store.Tx) error) (g *Log, err error) {
	err = l.store.Update(ctx, func(tx store.Tx) error {
		if g, err = l.BeginIn(tx, x, input); err != nil {
			return err
		}
		return during(tx, also)
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// BeginIn is Begin within a transaction. The log is good once that is committed,
// and its errors must end it.
func (l *Ledger) BeginIn(tx store.Tx, x Execution, input json.RawMessage) (*Log, error) {
	if r, err := load(tx, x.ID); err != nil || r != nil {
		return nil, exists(r, err)
	}
	g := l.log(x.ID)
	x.State, x.Attempts, x.Started = Running, 1, g.now()
	x.Updated = x.Started
	r := &record{Execution: x}
	var err error
	if r.Input, err = keep(tx, inputKey(x.ID), input); err != nil {
		return nil, err
	}
	return g, g.put(tx, r)
}

// put writes the execution as this attempt begins it.
func (g *Log) put(tx store.Tx, r *record) (err error) {
	g.number, g.begun = r.Attempts, r
	g.raw, err = putRecord(tx, r)
	return err
}

// current reads the execution. Nearly always it is as this attempt left it, and
// need not be decoded.
func (g *Log) current(tx store.Tx) (*record, error) {
	value, ok, err := tx.Get(executionsBucket, string(g.id))
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, unknown(g.id)
	case bytes.Equal(value, g.raw):
		return new(*g.begun), nil
	}
	r := new(record)
	return r, decode(value, r)
}

// putRecord writes an execution, and which attempt at it is the one that may go on.
// It returns what it wrote of the execution.
func putRecord(tx store.Tx, r *record) (raw []byte, err error) {
	if raw, err = encode(r); err != nil {
		return nil, err
	}
	if err := tx.Put(executionsBucket, string(r.ID), raw); err != nil {
		return nil, err
	}
	return raw, tx.Put(attemptsBucket, string(r.ID), []byte(strconv.Itoa(r.Attempts)))
}

// update writes, unless a later attempt has begun meanwhile.
func (g *Log) update(ctx context.Context, f func(store.Tx) error) error {
	return g.ledger.store.Update(ctx, func(tx store.Tx) error {
		switch number, _, err := tx.Get(attemptsBucket, string(g.id)); {
		case err != nil:
			return err
		case string(number) != strconv.Itoa(g.number):
			return fault.New(fault.ExecutionExists, "execution %s was resumed by another run", fault.Quote(string(g.id))).
				WithHint("Resume an execution only when nobody runs it any more.")
		}
		return f(tx)
	})
}

func (l *Ledger) log(id provider.ExecutionID) *Log {
	return &Log{ledger: l, id: id, now: time.Now, open: map[string]*Entry{}, uses: map[string]map[string]provider.Identity{}, met: map[string]string{},
		reruns: map[provider.Key]int{}}
}

func exists(r *record, err error) error {
	if err != nil {
		return err
	}
	return fault.New(fault.ExecutionExists, "execution %s is %s", fault.Quote(string(r.ID)), r.State).
		WithHint("Restore it, or use another id.")
}

func during(tx store.Tx, also func(store.Tx) error) error {
	if also == nil {
		return nil
	}
	return also(tx)
}

// Resume takes up an execution that died, failed or was cancelled, and returns
// its input. One that is done, or that there is not, is refused with
// EXECUTION_EXISTS and EXECUTION_UNKNOWN. Before anything changes, check, if it
// is not nil, may refuse; also, if it is not nil, writes in the same transaction.
func (l *Ledger) Resume(ctx context.Context, id provider.ExecutionID, check func(*Execution, json.RawMessage) error, also func(store.Tx) error) (*Log, *Execution, json.RawMessage, error) {
	g := l.log(id)
	var r *record
	var input json.RawMessage
	err := l.store.Update(ctx, func(tx store.Tx) error {
		var err error
		if r, err = load(tx, id); err != nil {
			return err
		}
		switch {
		case r == nil:
			return unknown(id)
		case r.State == Done:
			return exists(r, nil)
		}
		if input, err = whole(tx, inputKey(id), r.Input); err != nil {
			return err
		}
		if check != nil {
			if err := check(&r.Execution, input); err != nil {
				return err
			}
		}
		g.cut = r.State == Running || r.Kept
		if err := unend(tx, r); err != nil {
			return err
		}
		r.State, r.Updated, r.Err, r.Fault, r.Kept = Running, g.now(), "", nil, false
		r.Attempts++
		if err := g.put(tx, r); err != nil {
			return err
		}
		return during(tx, also)
	})
	if err != nil {
		return nil, nil, nil, err
	}
	return g, &r.Execution, input, g.read(ctx)
}

func unknown(id provider.ExecutionID) error {
	return fault.New(fault.ExecutionUnknown, "there is no execution %s", fault.Quote(string(id))).
		WithHint("Executions lists those there are; finished ones are kept for a limited time.")
}

// Withdraw forgets what is pending at a path: it was not sent after all. What an
// earlier attempt left pending there stays so. Where nothing is pending it does
// nothing.
func (g *Log) Withdraw(ctx context.Context, path string) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	_, there := g.open[path]
	before := g.known[path]
	g.mu.Unlock()
	if !there {
		return nil
	}
	err := g.update(ctx, func(tx store.Tx) error {
		if before != nil {
			return put(tx, entriesBucket, entryKey(g.id, path), before)
		}
		return tx.Delete(entriesBucket, entryKey(g.id, path))
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, path)
	return nil
}

// Pending records that something is about to be sent, and whatever also writes
// in the same transaction. Nothing may be sent unless it returned nil. Again for
// the same path, it replaces what was pending there.
func (g *Log) Pending(ctx context.Context, e Entry, also func(store.Tx) error) error {
	g.begin(&e)
	err := g.update(ctx, func(tx store.Tx) error {
		if err := put(tx, entriesBucket, entryKey(g.id, e.Path), e); err != nil {
			return err
		}
		return during(tx, also)
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[e.Path] = &e
	if e.Connection != "" {
		g.use(e.Path, e.Connection, e.Identity)
	}
	return nil
}

// begin fills in what the log knows of an entry that begins.
func (g *Log) begin(e *Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.Kind == "" {
		e.Kind = g.met[e.Path]
	}
	g.seq++
	e.Pending, e.Seq, e.Started = true, g.seq, g.now()
}

// use notes a connection for a path and all that is above it.
func (g *Log) use(path, connection string, identity provider.Identity) {
	for at := path; at != ""; at = above(at) {
		if g.uses[at] == nil {
			g.uses[at] = map[string]provider.Identity{}
		}
		if _, seen := g.uses[at][connection]; !seen {
			g.uses[at][connection] = identity
		}
	}
}

// Amend changes the entry that is pending at a path, as when its task becomes
// known. Where nothing is pending it does nothing. Changes of one path come one
// after the other.
func (g *Log) Amend(ctx context.Context, path string, change func(*Entry)) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	e := g.open[path]
	g.mu.Unlock()
	if e == nil {
		return nil
	}
	changed := *e
	change(&changed)
	err := g.update(ctx, func(tx store.Tx) error {
		return put(tx, entriesBucket, entryKey(g.id, path), changed)
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[path] == e {
		g.open[path] = &changed
	}
	return nil
}

// Settle records what a step came to: the Output or the Err of e. What was
// pending at its path is kept in the entry. An Err that is cancelled records
// nothing: what was pending stays so.
func (g *Log) Settle(ctx context.Context, e Entry) error {
	if g == nil {
		return nil
	}
	if e.Err != nil && e.Err.Code == fault.Cancelled {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.leave(e.Path)
		return nil
	}
	kept := g.settled(e)
	if err := g.update(ctx, func(tx store.Tx) error { return putSettled(tx, g.id, kept) }); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
	g.leave(e.Path)
	return nil
}

// Conclude is Settle for the outermost step, after which nothing but End comes: it
// is End that writes it, in its transaction. If End never comes, it is as if the
// process had died before.
func (g *Log) Conclude(e Entry) {
	if g == nil {
		return
	}
	if e.Err == nil || e.Err.Code != fault.Cancelled {
		kept := g.settled(e)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.concluded = append(g.concluded, kept)
		g.leave(e.Path)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leave(e.Path)
}

// putSettled writes an entry that is settled. What it is made of stays as it is,
// since a transaction may run again.
func putSettled(tx store.Tx, id provider.ExecutionID, kept Entry) error {
	key := entryKey(id, kept.Path)
	var err error
	if kept.Output, err = keep(tx, key, kept.Output); err != nil {
		return err
	}
	if kept.Items, err = keep(tx, itemsKey(key), kept.Items); err != nil {
		return err
	}
	return put(tx, entriesBucket, key, kept)
}

// leave forgets what is known of a step that runs no more.
func (g *Log) leave(path string) {
	delete(g.open, path)
	delete(g.known, path)
	delete(g.uses, path)
	delete(g.met, path)
}

// settled joins what is known of a path with what it came to.
func (g *Log) settled(e Entry) Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	kept := Entry{Path: e.Path, Started: e.Started, Kind: g.met[e.Path]}
	if open := g.open[e.Path]; open != nil {
		kept = *open
	} else if before := g.known[e.Path]; before != nil && before.Pending {
		kept = *before // what came of an earlier attempt stays unknown, or is known now
	}
	if e.Kind != "" {
		kept.Kind = e.Kind
	}
	g.seq++
	kept.Pending, kept.Seq = false, g.seq
	kept.Output, kept.Err, kept.Ended = e.Output, e.Err, g.now()
	kept.Items, kept.Line = e.Items, e.Line
	kept.Uses = maps.Clone(g.uses[e.Path])
	return kept
}

// End records how the execution ended, and whatever also writes in the same
// transaction.
func (g *Log) End(ctx context.Context, s State, out json.RawMessage, failed *fault.Error, also func(store.Tx) error) error {
	g.mu.Lock()
	count, concluded := g.count+len(g.concluded), g.concluded
	g.mu.Unlock()
	return g.update(ctx, func(tx store.Tx) error {
		r, err := g.current(tx)
		if err != nil {
			return err
		}
		for _, e := range concluded {
			if err := putSettled(tx, g.id, e); err != nil {
				return err
			}
		}
		if r.Output, err = keep(tx, outputKey(g.id), out); err != nil {
			return err
		}
		r.Steps = count
		if err := end(tx, r, s, failed, g.now()); err != nil {
			return err
		}
		return during(tx, also)
	})
}
