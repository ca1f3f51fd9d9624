package triggers

import (
	"context"
	"sync"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// maxAhead is how many messages may be known out of order before the store is
// looked through even while this process adds to it.
const maxAhead = 4096

// intake knows which messages have been counted and handed on, so that what
// another process adds to the store is found without looking at what this one
// does. All methods are safe for concurrent use.
type intake struct {
	inbox *Inbox

	mu    sync.Mutex
	seen  uint64              // all up to it are counted; guarded by mu
	ahead map[uint64]struct{} // beyond it; guarded by mu
	busy  int                 // transactions of this process; guarded by mu
	put   bool                // looking was put off until they end; guarded by mu
}

// begin tells that this process is about to add messages.
func (n *intake) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy++
}

// end counts what was added.
func (n *intake) end(fresh []*item) {
	n.mu.Lock()
	n.busy--
	look := n.put && n.busy == 0
	var mine []*item
	for _, it := range fresh {
		if n.count(it.seq) {
			mine = append(mine, it)
		}
	}
	n.mu.Unlock()
	for _, it := range mine {
		n.inbox.enter(it.trigger, it.message.Thread, it.seq, &it.standing)
	}
	if look {
		n.inbox.wake()
	}
}

// count reports whether a message is new, and counts it. The caller holds mu.
func (n *intake) count(seq uint64) bool {
	if _, there := n.ahead[seq]; there || seq <= n.seen {
		return false
	}
	n.ahead[seq] = struct{}{}
	for {
		if _, there := n.ahead[n.seen+1]; !there {
			return true
		}
		n.seen++
		delete(n.ahead, n.seen)
	}
}

// put off looking while this process adds: most of what is new is its own.
func (n *intake) mayLook() (after uint64, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.put = n.busy > 0 && len(n.ahead) < maxAhead
	return n.seen, !n.put
}

// look finds messages that others have added.
func (n *intake) look(ctx context.Context) error {
	after, ok := n.mayLook()
	if !ok {
		return nil
	}
	for {
		var last uint64
		var found []foundMessage
		err := n.inbox.config.Store.View(ctx, func(tx store.Tx) error {
			var err error
			found = found[:0]
			if last, err = lastSeq(tx); err != nil || last <= after {
				return err
			}
			found, err = findAfter(tx, after)
			return err
		})
		if err != nil || last <= after {
			return err
		}
		n.found(found)
		if len(found) < inboxPage {
			n.upTo(last)
			return nil
		}
		after = found[len(found)-1].seq
		n.upTo(after)
	}
}

// upTo counts numbers that belong to no message any more.
func (n *intake) upTo(last uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for seq := n.seen + 1; seq <= last; seq++ {
		n.count(seq)
	}
}

// inboxPage is how many records are read at once.
const inboxPage = 128

// foundMessage is a message that came up in the store.
type foundMessage struct {
	seq      uint64
	thread   provider.ThreadID
	standing *standing // nil if it has none
}

// findAfter reads a page of messages.
func findAfter(tx store.Tx, after uint64) ([]foundMessage, error) {
	var found []foundMessage
	for rec, err := range tx.Scan(messagesBucket, store.Range{From: orderKey(after + 1), Limit: inboxPage}) {
		if err != nil {
			return nil, err
		}
		seq, err := orderOf(rec.Key)
		if err != nil {
			return nil, err
		}
		var m stored
		if err := readRecord(rec.Value, &m); err != nil {
			return nil, err
		}
		s, err := standingOf(tx, m.Thread, seq)
		if err != nil {
			return nil, err
		}
		found = append(found, foundMessage{seq: seq, thread: m.Thread, standing: s})
	}
	return found, nil
}

// standingOf reads where a message is, nil if there is none.
func standingOf(tx store.Tx, thread provider.ThreadID, seq uint64) (*standing, error) {
	s, ok, err := fetch[standing](tx, queueBucket, queueKey(thread, seq))
	if ok || err != nil {
		return s, err
	}
	s, _, err = fetch[standing](tx, endedBucket, orderKey(seq))
	return s, err
}

func (n *intake) found(all []foundMessage) {
	for _, f := range all {
		n.mu.Lock()
		fresh := n.count(f.seq)
		n.mu.Unlock()
		if !fresh || f.standing == nil {
			continue
		}
		if t := n.inbox.byID[f.standing.Trigger]; t != nil {
			n.inbox.enter(t, f.thread, f.seq, f.standing)
		}
	}
}
