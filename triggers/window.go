package triggers

import (
	"slices"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

const (
	// windowSize is how many messages of a thread are in memory at once.
	windowSize = 16
	// windowBytes ends a window early that is read.
	windowBytes = 256 << 10
	// heldBytes is how much of what was just accepted stays in memory in all, so
	// that it need not be read again. It covers the usual message many hundred times.
	heldBytes = 4 << 20
)

// work is a message whose turn comes.
type work struct {
	seq      uint64
	raw      []byte // its standing as it is in the store
	standing standing
	message  *stored
	trigger  *trigger
	held     int // what it counts for in lanes.held
}

// untouched tells that nobody attempted it before.
func (w *work) untouched() bool {
	return w.standing.State == Pending && !w.standing.Begun && w.standing.Next == 0
}

// hold keeps what was just accepted in the window of its lane, if that goes on
// with it and there is room. The caller holds mu, and has not added it yet.
func (l *lanes) hold(one *lane, f *foundMessage) {
	if f.message == nil || one.changed || len(one.window) < len(one.seqs) || len(one.window) >= windowSize || l.held+f.size > heldBytes {
		return
	}
	l.held += f.size
	one.window = append(one.window, &work{seq: f.seq, raw: f.raw, standing: f.standing, message: f.message, trigger: f.trigger, held: f.size})
}

// letGo drops the first messages of a window. The caller holds mu.
func (l *lanes) letGo(one *lane, n int) {
	for _, w := range one.window[:n] {
		l.held -= w.held
	}
	clear(one.window[:n])
	if one.window = one.window[n:]; len(one.window) == 0 {
		one.window = nil
	}
}

// forget has the window of a lane read anew.
func (l *lanes) forget(one *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letGo(one, len(one.window))
}

// first returns the message that a lane goes on with, or which ones to read since
// that is not in memory. Only while few lanes wait is it worth to keep some for
// later.
func (l *lanes) first(one *lane) (w *work, read []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.changed {
		one.changed = false
		l.letGo(one, len(one.window))
	}
	if len(one.window) > 0 {
		return one.window[0], nil
	}
	most := 1
	if len(l.ready) < l.limit {
		most = windowSize
	}
	return nil, slices.Clone(one.seqs[:min(most, len(one.seqs))])
}

// second returns the message that comes after the one which a lane is at, if that
// is known and no other lane waits for its turn; nil otherwise.
func (l *lanes) second(one *lane) *work {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || one.changed || len(l.ready) > 0 || len(one.window) < 2 {
		return nil
	}
	return one.window[1]
}

// show makes what was read the window of a lane.
func (l *lanes) show(one *lane, window []*work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.window = window
}

// load reads the window of a lane. What is no longer there was dropped by another
// process.
func (i *Inbox) load(one *lane, seqs []uint64) error {
	var window []*work
	var gone []uint64
	err := i.config.Store.View(i.ctx, func(tx store.Tx) error {
		window, gone = nil, nil
		size := 0
		for _, seq := range seqs {
			w, err := i.readWork(tx, seq)
			switch {
			case err != nil:
				return err
			case w == nil:
				gone = append(gone, seq)
			default:
				window = append(window, w)
				size += len(w.message.Event.Payload)
			}
			if size >= windowBytes {
				break
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	i.lanes.show(one, window)
	for _, seq := range gone {
		i.lanes.over(one, seq)
		for _, t := range i.triggers {
			i.leave(t, seq)
		}
	}
	return nil
}

// readWork reads a message of the queue, nil if it is not there.
func (i *Inbox) readWork(tx store.Tx, seq uint64) (*work, error) {
	raw, ok, err := tx.Get(queueBucket, orderKey(seq))
	if !ok || err != nil {
		return nil, err
	}
	w := &work{seq: seq, raw: raw}
	if err := readRecord(raw, &w.standing); err != nil {
		return nil, err
	}
	if w.message, ok, err = getMessage(tx, seq); err == nil && !ok {
		err = fault.New(fault.StoreFailed, "inbox lost message %d", seq)
	}
	w.trigger = i.byID[w.standing.Trigger]
	return w, err
}
