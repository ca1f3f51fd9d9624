package triggers

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// inboxFormat is the version of the records. A change that older code would
// misread counts it up.
const inboxFormat = 1

// The buckets. What happens to every event is kept small: accepting one writes
// the first three, beginning its turn changes one, and ending it moves one.
const (
	messagesBucket = "triggers/messages" // by seq: what was accepted
	knownBucket    = "triggers/known"    // by message id: events that are known if they come again
	queueBucket    = "triggers/queue"    // by thread and seq: the standing of those without an outcome
	endedBucket    = "triggers/ended"    // by seq: the standing of the others
	forgetBucket   = "triggers/forget"   // by seq: ids of messages that are gone, and still known
	largeBucket    = "triggers/large"    // by seq and number: parts of long payloads
	cursorsBucket  = "triggers/cursors"  // by stream
	inboxMeta      = "triggers/meta"

	formatKey = "format"
	seqKey    = "seq" // the last one given out
)

// stored is what was accepted, as it is kept. It does not change while the
// message has a standing in the queue.
type stored struct {
	ID         string               `json:"id"`
	Execution  provider.ExecutionID `json:"execution"`
	Trigger    ID                   `json:"trigger"`
	Connection connection.Name      `json:"connection"`
	Thread     provider.ThreadID    `json:"thread"`
	Event      Event                `json:"event"`
	At         time.Time            `json:"at"`
	// Large is the length of a payload that is kept apart.
	Large int `json:"large,omitempty"`
	// Unplaced tells that Filter, Thread or sealing failed: the event is on the
	// trigger's own thread and not sealed.
	Unplaced bool `json:"unplaced,omitempty"`
}

// standing is where a message is in its life, as it is kept.
type standing struct {
	State    MessageState `json:"state"`
	Trigger  ID           `json:"trigger"`
	At       time.Time    `json:"at"` // when it was accepted
	Updated  time.Time    `json:"updated"`
	Attempts int          `json:"attempts,omitempty"` // since it was retried by hand
	Begun    bool         `json:"begun,omitempty"`    // there is an execution
	Next     time.Time    `json:"next,omitzero"`
	Err      *fault.Error `json:"err,omitempty"`
	Reason   string       `json:"reason,omitempty"`
}

// live tells that it has no outcome yet.
func (s *standing) live() bool { return s.State == Pending || s.State == Running }

// checkFormat begins an inbox, or refuses one that cannot be read.
func checkFormat(ctx context.Context, s store.Store) error {
	var found string
	err := s.View(ctx, func(tx store.Tx) error {
		value, _, err := tx.Get(inboxMeta, formatKey)
		found = string(value)
		return err
	})
	if err != nil {
		return err
	}
	switch version, err := strconv.Atoi(found); {
	case found == "":
		return s.Update(ctx, func(tx store.Tx) error {
			return tx.Put(inboxMeta, formatKey, []byte(strconv.Itoa(inboxFormat)))
		})
	case err != nil || version < 1:
		return fault.New(fault.StoreFailed, "inbox's format %s cannot be read", fault.Quote(found))
	case version > inboxFormat:
		return fault.New(fault.StoreUnsupported, "inbox has format %d, and this version knows %d", version, inboxFormat).
			WithHint("Use the version of Bridle that wrote it, or a newer one.")
	}
	return nil
}

// orderKey keeps numbers in order as text.
func orderKey(seq uint64) string { return fmt.Sprintf("%016x", seq) }

func orderOf(key string) (uint64, error) {
	seq, err := strconv.ParseUint(key, 16, 64)
	if err != nil {
		return 0, fault.New(fault.StoreFailed, "key %s of the inbox cannot be read", fault.Quote(key))
	}
	return seq, nil
}

// queueKey keeps what belongs to a thread in order. Ids of threads contain no
// colon.
func queueKey(thread provider.ThreadID, seq uint64) string {
	return string(thread) + ":" + orderKey(seq)
}

// placeOf reads what queueKey wrote.
func placeOf(key string) (provider.ThreadID, uint64, error) {
	at := len(key) - len(orderKey(0))
	if at < 2 {
		return "", 0, fault.New(fault.StoreFailed, "key %s of the inbox cannot be read", fault.Quote(key))
	}
	seq, err := orderOf(key[at:])
	return provider.ThreadID(key[:at-1]), seq, err
}

// lastSeq is the last number that was given out.
func lastSeq(tx store.Tx) (uint64, error) {
	value, ok, err := tx.Get(inboxMeta, seqKey)
	if !ok || err != nil {
		return 0, err
	}
	return orderOf(string(value))
}

func putSeq(tx store.Tx, seq uint64) error { return tx.Put(inboxMeta, seqKey, []byte(orderKey(seq))) }

// fetch reads a record. ok is false if there is none.
func fetch[T any](tx store.Tx, bucket, key string) (record *T, ok bool, err error) {
	value, ok, err := tx.Get(bucket, key)
	if !ok || err != nil {
		return nil, false, err
	}
	record = new(T)
	return record, true, readRecord(value, record)
}

func readRecord(value []byte, into any) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fault.New(fault.StoreFailed, "record of the inbox cannot be read: %w", err)
	}
	return nil
}

func writeRecord(tx store.Tx, bucket, key string, record any) error {
	value, err := json.Marshal(record)
	if err != nil {
		return fault.New(fault.StoreFailed, "record of the inbox cannot be written: %w", err)
	}
	return tx.Put(bucket, key, value)
}

// known is what is remembered of an event, as one line: the seq of its message,
// and the digests of what was in it and where it was in its stream.
type known struct {
	seq           uint64
	content, spot string
}

func (k known) line() []byte { return []byte(orderKey(k.seq) + " " + k.content + " " + k.spot) }

func readKnown(value []byte) (k known, err error) {
	var seq string
	if n, err := fmt.Sscanf(string(value), "%s %s %s", &seq, &k.content, &k.spot); n != 3 || err != nil {
		return k, fault.New(fault.StoreFailed, "record of a known event cannot be read")
	}
	k.seq, err = orderOf(seq)
	return k, err
}
