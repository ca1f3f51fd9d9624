package ledger

import (
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// Join records, within a transaction, that messages joined an execution after it had
// begun with others. They are assigned to it, and removed with it.
func (l *Ledger) Join(tx store.Tx, id provider.ExecutionID, messages ...string) error {
	for _, name := range messages {
		if err := tx.Put(joinedBucket, entryPrefix(id)+name, []byte(name)); err != nil {
			return err
		}
	}
	return l.Assign(tx, id, messages...)
}

// forgetJoined removes the messages that joined an execution, except for those that
// another one answers, or that wait for one.
func (l *Ledger) forgetJoined(tx store.Tx, id provider.ExecutionID) error {
	var over []string
	for rec, err := range tx.Scan(joinedBucket, store.Range{Prefix: entryPrefix(id)}) {
		if err != nil {
			return err
		}
		m, err := loadMessage(tx, string(rec.Value))
		if err != nil {
			return err
		}
		if m != nil && m.Done && m.Execution == id {
			over = append(over, m.ID)
		}
	}
	if err := l.Forget(tx, over...); err != nil {
		return err
	}
	return clear(tx, joinedBucket, entryPrefix(id))
}
