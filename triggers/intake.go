package triggers

import (
	"context"
	"sync"

	"github.com/bridle-dev/bridle/store"
)

const (
	// inboxPage is how many records are read at once.
	inboxPage = 128
	// maxAhead is how many messages may be known out of order before the store is
	// looked through even while this process adds to it.
	maxAhead = 4096
)

// foundMessage is a message that came up in the store.
type foundMessage struct {
	seq      uint64
	trigger  *trigger // nil if it is not configured
	standing standing

	item  *item  // of what this process has just accepted
	early *early // whose turn has begun already, nil for most
}

// intake hands messages on in the order of the store, whoever put them there and
// whichever transaction returned first. What this process adds it knows; the
// store is looked through for what others have added. All methods are safe for
// concurrent use.
type intake struct {
	inbox *Inbox

	mu     sync.Mutex
	seen   uint64                   // all up to it are handed on; guarded by mu
	ahead  map[uint64]*foundMessage // beyond it, nil for none; guarded by mu
	busy   int                      // transactions of this process; guarded by mu
	put    bool                     // looking was put off until they end; guarded by mu
	strays uint64                   // the first message whose trigger is not configured, 0 for none; guarded by mu
}

// begin tells that this process is about to add messages. It returns a number below
// which something was done about all that there are, and the number that comes next
// if nobody else adds any.
func (n *intake) begin() (oldest, next uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy++
	next = n.seen + 1
	oldest = next
	if n.strays > 0 {
		oldest = n.strays
	}
	for _, t := range n.inbox.triggers {
		oldest = min(oldest, t.book.first(oldest))
	}
	return oldest, next
}

// stray notes a message whose trigger is not configured.
func (n *intake) stray(seq uint64, s *standing) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.astray(seq, s)
}

// astray is stray for who holds mu.
func (n *intake) astray(seq uint64, s *standing) {
	if s.live() && (n.strays == 0 || seq < n.strays) {
		n.strays = seq
	}
}

// end hands on what was added. Of a transaction that failed it is not known what
// it did.
func (n *intake) end(fresh []*foundMessage, failed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy--
	for _, f := range fresh {
		if f.early != nil && f.seq <= n.seen && f.early.claim() { // a look has handed it on, to the lane that is kept for it
			f.early.start()
		}
		n.add(f.seq, f)
	}
	n.next()
	if failed || n.put && n.busy == 0 {
		n.inbox.wake()
	}
}

// add notes a message unless it is known. The caller holds mu.
func (n *intake) add(seq uint64, f *foundMessage) {
	if _, there := n.ahead[seq]; !there && seq > n.seen {
		n.ahead[seq] = f
	}
}

// next hands on what follows without a hole. The caller holds mu, so that nobody
// hands on something later before.
func (n *intake) next() {
	for {
		f, there := n.ahead[n.seen+1]
		if !there {
			return
		}
		n.seen++
		delete(n.ahead, n.seen)
		switch {
		case f == nil:
		case f.trigger != nil:
			n.inbox.enter(f)
		default:
			n.astray(f.seq, &f.standing)
		}
	}
}

// mayLook puts off looking while this process adds: most of what is new is its
// own.
func (n *intake) mayLook() (after uint64, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.put = n.busy > 0 && len(n.ahead) < maxAhead
	return n.seen, !n.put
}

// look finds messages that others have added.
func (n *intake) look(ctx context.Context) error {
	after, ok := n.mayLook()
	for ok {
		last, found, err := n.page(ctx, after)
		if err != nil || last == after {
			return err
		}
		n.found(last, found)
		after = last
	}
	return nil
}

// page reads some of the messages after a number. All that there are up to last
// are among them.
func (n *intake) page(ctx context.Context, after uint64) (last uint64, found []*foundMessage, err error) {
	err = n.inbox.config.Store.View(ctx, func(tx store.Tx) (err error) {
		found = nil
		given, err := spanOf(tx)
		if err != nil {
			return err
		}
		last = max(after, min(given.last, after+inboxPage))
		for seq := after + 1; seq <= last; seq++ {
			s, err := standingOf(tx, seq)
			if err != nil {
				return err
			}
			if s != nil {
				found = append(found, &foundMessage{seq: seq, trigger: n.inbox.byID[s.Trigger], standing: *s})
			}
		}
		return nil
	})
	return last, found, err
}

// found hands on what a look has found, all up to last.
func (n *intake) found(last uint64, found []*foundMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range found {
		n.add(f.seq, f)
	}
	for seq := n.seen + 1; seq <= last; seq++ {
		n.add(seq, nil)
	}
	n.next()
}
