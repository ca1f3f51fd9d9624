package triggers

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/store"
)

// progress is how far the streams of a transaction have got in it.
type progress struct {
	at     Cursor
	left   []Cursor // positions before it, oldest first
	gaps   int
	missed Skipped // in gaps of a schedule, all together
	back   int
	anew   bool      // what it had passed counts no more
	kept   *position // as it was written; nil if nothing changed
}

// accept stores what arrived, all of it or nothing: the events that are not known
// yet, with their executions and their places in the threads, and the positions
// of the streams. The arrivals of a stream are in its order.
func (i *Inbox) accept(ctx context.Context, all []arrival) error {
	oldest, next := i.intake.begin()
	first := i.early(all, next)
	defer func() { first.drop() }() // unless it is at work by then
	moved, err := i.put(ctx, all, oldest, first)
	if first != nil && first.refused {
		first.drop()
		first = nil
		moved, err = i.put(ctx, all, oldest, nil)
	}
	if err != nil {
		i.intake.end(nil, true)
		return err
	}
	var fresh []*foundMessage
	for _, a := range all {
		for n := range a.items {
			if it := &a.items[n]; it.stored {
				fresh = append(fresh, &foundMessage{seq: it.seq, trigger: it.trigger, standing: it.standing, item: it})
				if first != nil && first.began {
					fresh[len(fresh)-1].early = first
				}
			}
		}
	}
	for s, p := range moved {
		if p.anew {
			s.passed, s.lost = nil, false
		}
		s.pass(p.left, p.at)
	}
	i.tellAccepted(all, moved) // before their turns begin
	i.intake.end(fresh, false)
	i.release(ctx, unstored(all)...)
	return nil
}

// put stores what arrived in one transaction, in which the turn of the first event may
// begin.
func (i *Inbox) put(ctx context.Context, all []arrival, oldest uint64, first *early) (moved map[*stream]*progress, err error) {
	err = i.config.Store.Update(ctx, func(tx store.Tx) error {
		moved = map[*stream]*progress{}
		seq, err := i.putAll(tx, all, moved)
		if err != nil {
			return err
		}
		if err := putPositions(tx, moved, time.Now()); err != nil || seq == 0 {
			return err
		}
		if err := putSpan(tx, span{oldest: oldest, last: seq}); err != nil {
			return err
		}
		return first.begin(tx)
	})
	return moved, err
}

// putAll stores the items, and returns the last number given out, 0 if none was.
func (i *Inbox) putAll(tx store.Tx, all []arrival, moved map[*stream]*progress) (last uint64, err error) {
	for n := range all {
		a := &all[n]
		p := moved[a.stream]
		if p == nil {
			p = &progress{at: a.stream.position}
			moved[a.stream] = p
		}
		again := false
		for n := range a.items {
			it := &a.items[n]
			before, err := it.lookUp(tx)
			if err != nil {
				return 0, err
			}
			it.stored = before == nil
			it.conflict = before != nil && before.content != it.content
			if before != nil {
				again = again || before.spot == spotOf(a.cursor)
				continue
			}
			if last == 0 {
				given, err := spanOf(tx)
				if err != nil {
					return 0, err
				}
				last = given.last
			}
			last++
			if err := it.put(tx, last, a.cursor); err != nil {
				return 0, err
			}
		}
		p.step(a, again)
	}
	return last, nil
}

// step moves the position on. An event that was stored before with the same
// cursor tells nothing new about it: the position went past it then.
func (p *progress) step(a *arrival, again bool) {
	if a.gap {
		p.gaps++
		p.missed = p.missed.and(a.missed)
	}
	switch {
	case a.anew:
		p.at, p.left, p.anew = a.cursor, nil, true
		return
	case again:
		return
	}
	to, back := a.stream.advance(p.at, a.cursor, p.left)
	if back {
		p.back++
	}
	if to != p.at {
		p.left = append(p.left, p.at)
		p.at = to
	}
}

// lookUp returns what is known of an event that came before, nil if nothing is.
func (it *item) lookUp(tx store.Tx) (*known, error) {
	value, ok, err := tx.Get(knownBucket, it.message.ID)
	if !ok || err != nil {
		return nil, err
	}
	k, err := readKnown(value)
	return &k, err
}

// put stores an item under its number.
func (it *item) put(tx store.Tx, seq uint64, at Cursor) error {
	it.seq = seq
	key := orderKey(seq)
	if err := tx.Put(messagesBucket, key, it.record); err != nil {
		return err
	}
	if err := putParts(tx, seq, it.apart); err != nil {
		return err
	}
	k := known{seq: seq, content: it.content, spot: spotOf(at)}
	if err := tx.Put(knownBucket, it.message.ID, k.line()); err != nil {
		return err
	}
	if it.standing.live() {
		return nil // as its message says
	}
	return putStanding(tx, seq, &it.standing)
}

// putPositions writes the positions that changed.
func putPositions(tx store.Tx, moved map[*stream]*progress, now time.Time) error {
	for s, p := range moved {
		p.kept = nil
		if p.at == s.position && s.known && p.gaps == 0 {
			continue
		}
		kept, ok, err := fetch[position](tx, cursorsBucket, s.key)
		if err != nil {
			return err
		}
		if !ok {
			kept = &position{Connection: s.connection, Event: s.event}
		}
		if string(kept.Cursor) != string(p.at) || !ok {
			kept.Cursor, kept.At = []byte(p.at), now
		}
		if p.gaps > 0 {
			kept.Gaps, kept.GapAt = kept.Gaps+p.gaps, now
		}
		if err := writeRecord(tx, cursorsBucket, s.key, kept); err != nil {
			return err
		}
		p.kept = kept
	}
	return nil
}
