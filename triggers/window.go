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
	// that it need not be read again: some thousand messages of the usual size.
	heldBytes = 4 << 20
)

// work is a message whose turn comes.
type work struct {
	seq      uint64
	raw      []byte // its standing as it is in the store; nil if it is as its message says
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
	if f.item == nil || one.changed || len(one.window) < len(one.seqs) || len(one.window) >= windowSize || l.held+len(f.item.record) > heldBytes {
		return
	}
	w := f.work()
	if w == nil {
		return
	}
	w.held = len(f.item.record)
	l.held += w.held
	one.window = append(one.window, w)
}

// work is a message that was just accepted as reading it makes it, nil if it has to be
// read.
func (f *foundMessage) work() *work {
	if f.early != nil {
		return f.early.attempt.work
	}
	m := f.item.asRead()
	if m == nil {
		return nil
	}
	return &work{seq: f.seq, standing: f.standing, message: m, trigger: f.trigger}
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
// that is not in memory.
func (l *lanes) first(one *lane) (w *work, read []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.changed {
		one.changed = false
		l.letGo(one, len(one.window))
	}
	return l.look(one, 0)
}

// second is first for the message after the one that a lane is at. While other
// lanes wait for their turn there is none.
func (l *lanes) second(one *lane) (w *work, read []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped || one.changed || len(l.ready) > 0 || len(one.window) == 0 {
		return nil, nil
	}
	return l.look(one, 1)
}

// look returns a message of the window, or which ones come after it. Only while few
// lanes wait is it worth to read some for later. The caller holds mu.
func (l *lanes) look(one *lane, n int) (w *work, read []uint64) {
	if n < len(one.window) {
		return one.window[n], nil
	}
	most := 1
	if len(l.ready) < l.limit {
		most = windowSize
	}
	next := one.seqs[len(one.window):]
	return nil, slices.Clone(next[:min(most, len(next))])
}

// show adds what was read to the window of a lane.
func (l *lanes) show(one *lane, read []*work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.window = append(one.window, read...)
}

// load reads messages into the window of a lane. What is no longer there was dropped
// by another process.
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

// readWork reads a message that has no outcome, nil if there is none.
func (i *Inbox) readWork(tx store.Tx, seq uint64) (*work, error) {
	w := &work{seq: seq}
	var attempted, there bool
	var err error
	if w.raw, attempted, err = tx.Get(queueBucket, orderKey(seq)); err != nil {
		return nil, err
	}
	if !attempted {
		if _, ended, err := tx.Get(endedBucket, orderKey(seq)); ended || err != nil {
			return nil, err
		}
	}
	w.message, there, err = getMessage(tx, seq)
	switch {
	case err != nil:
		return nil, err
	case !there && attempted:
		return nil, fault.New(fault.StoreFailed, "inbox lost message %d", seq)
	case !there:
		return nil, nil
	case attempted:
		err = readRecord(w.raw, &w.standing)
	default:
		w.raw, w.standing = nil, *w.message.accepted()
	}
	w.trigger = i.byID[w.standing.Trigger]
	return w, err
}
