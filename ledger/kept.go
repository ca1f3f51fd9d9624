package ledger

import (
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// Keep records, within a transaction, that a turn of an earlier process could not
// be taken up, as when the graph that it began with is another one now: it failed,
// and its messages go on waiting for it, until it is resumed or given up. Trim
// leaves it alone. One that there is not is EXECUTION_UNKNOWN, one that is done
// EXECUTION_EXISTS.
func (l *Ledger) Keep(tx store.Tx, id provider.ExecutionID, failed *fault.Error) error {
	r, err := unfinished(tx, id)
	if err != nil {
		return err
	}
	if err := unend(tx, r); err != nil {
		return err
	}
	r.ended(Failed, failed, time.Now())
	r.Kept = true
	_, err = putRecord(tx, r)
	return err
}

// GiveUp ends, within a transaction, an execution that nobody runs. It fails as
// Keep does.
func (l *Ledger) GiveUp(tx store.Tx, id provider.ExecutionID, s State, failed *fault.Error) error {
	r, err := unfinished(tx, id)
	if err != nil {
		return err
	}
	return end(tx, r, s, failed, time.Now())
}

// unfinished returns an execution that is not done.
func unfinished(tx store.Tx, id provider.ExecutionID) (*record, error) {
	r, err := load(tx, id)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, unknown(id)
	case r.State == Done:
		return nil, exists(r, nil)
	}
	return r, nil
}

// end writes how an execution ended, and when, for retention.
func end(tx store.Tx, r *record, s State, failed *fault.Error, now time.Time) error {
	if err := unend(tx, r); err != nil {
		return err
	}
	r.ended(s, failed, now)
	if err := put(tx, executionsBucket, string(r.ID), r); err != nil { // the attempt is the same
		return err
	}
	return tx.Put(endedBucket, endedKey(r), []byte(r.ID))
}

// unend takes an execution from those that ended, if it is one.
func unend(tx store.Tx, r *record) error {
	if r.State == Running {
		return nil
	}
	return tx.Delete(endedBucket, endedKey(r))
}

func (r *record) ended(s State, failed *fault.Error, now time.Time) {
	r.State, r.Updated, r.Fault, r.Err, r.Kept = s, now, failed, "", false
	if failed != nil {
		r.Err = failed.Error()
	}
}
