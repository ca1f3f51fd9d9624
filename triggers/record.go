package triggers

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// inboxFormat is the version of the records. A change that older code would
// misread counts it up.
//
// Format 1 had a record in the queue for each message without an outcome, and no span;
// no release wrote it.
const inboxFormat = 2

// The buckets. What happens to every event is kept small: accepting one writes
// the first two, beginning its turn adds one record, and ending it moves that.
// All but one go by seq, so that what is worked on at one time lies together, and
// a commit touches few pages.
const (
	messagesBucket = "triggers/messages" // by seq: what was accepted
	knownBucket    = "triggers/known"    // by message id: events that are known if they come again
	queueBucket    = "triggers/queue"    // by seq: the standing of those without an outcome that were attempted
	endedBucket    = "triggers/ended"    // by seq: the standing of the others
	forgetBucket   = "triggers/forget"   // by seq: ids of messages that are gone, and still known
	largeBucket    = "triggers/large"    // by seq and number: parts of long payloads
	cursorsBucket  = "triggers/cursors"  // by stream
	inboxMeta      = "triggers/meta"

	formatKey = "format"
	seqKey    = "seq" // a span
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
	// Listened is the name of the event that was listened to, where that is not its
	// type.
	Listened string `json:"listened,omitempty"`
	// Large is the length of a payload that is kept apart.
	Large int `json:"large,omitempty"`
	// Unplaced tells that Filter, Thread or sealing failed: the event is on the
	// trigger's own thread and not sealed.
	Unplaced bool `json:"unplaced,omitempty"`
	// Kept tells that something may be put away for the execution.
	Kept bool `json:"kept,omitempty"`
}

// standing is where a message is in its life, as it is kept.
type standing struct {
	State    MessageState      `json:"state"`
	Trigger  ID                `json:"trigger"`
	Thread   provider.ThreadID `json:"thread"`
	At       nanos             `json:"at"` // when it was accepted
	Updated  nanos             `json:"updated"`
	Attempts int               `json:"attempts,omitempty"` // since it was retried by hand
	Begun    bool              `json:"begun,omitempty"`    // there is an execution
	Next     nanos             `json:"next,omitempty"`
	Err      *fault.Error      `json:"err,omitempty"`
	Reason   string            `json:"reason,omitempty"`
}

// nanos is a time in nanoseconds since 1970, 0 for none. A number is read and
// written in a tenth of the time that a date takes, and a standing has three.
type nanos int64

func nanosOf(t time.Time) nanos { return nanos(t.UnixNano()) }

func (at nanos) time() time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(at)).UTC()
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
	case version < inboxFormat:
		return fault.New(fault.StoreUnsupported, "inbox has format %d, which no release wrote, and this version knows %d", version, inboxFormat).
			WithHint("Have the version that wrote it deal with what waits, and begin with a new store.")
	case version > inboxFormat:
		return fault.New(fault.StoreUnsupported, "inbox has format %d, and this version knows %d", version, inboxFormat).
			WithHint("Use the version of Bridle that wrote it, or a newer one.")
	}
	return nil
}

// orderKey keeps numbers in order as text.
func orderKey(seq uint64) string {
	var text [16]byte
	for i := range text {
		text[i] = "0123456789abcdef"[seq>>(60-4*i)&15]
	}
	return string(text[:])
}

func orderOf(key string) (uint64, error) {
	seq, err := strconv.ParseUint(key, 16, 64)
	if err != nil || orderKey(seq) != key {
		return 0, fault.New(fault.StoreFailed, "key %s of the inbox cannot be read", fault.Quote(key))
	}
	return seq, nil
}

// putStanding writes where a message is, and removes it from where it was.
func putStanding(tx store.Tx, seq uint64, s *standing) error {
	key := orderKey(seq)
	value, err := s.bytes()
	if err != nil {
		return fault.New(fault.StoreFailed, "record of the inbox cannot be written: %w", err)
	}
	if s.live() {
		return tx.Put(queueBucket, key, value)
	}
	if err := tx.Delete(queueBucket, key); err != nil {
		return err
	}
	return tx.Put(endedBucket, key, value)
}

// standingOf reads where a message is, nil if there is none.
func standingOf(tx store.Tx, seq uint64) (*standing, error) {
	s, err := changedStanding(tx, seq)
	if s != nil || err != nil {
		return s, err
	}
	value, ok, err := tx.Get(messagesBucket, orderKey(seq))
	if !ok || err != nil {
		return nil, err
	}
	m, err := readStored(value)
	if err != nil {
		return nil, err
	}
	return m.accepted(), nil
}

// changedStanding reads where a message is since something was done about it, nil
// if nothing was.
func changedStanding(tx store.Tx, seq uint64) (*standing, error) {
	key := orderKey(seq)
	s, ok, err := fetch[standing](tx, queueBucket, key)
	if ok || err != nil {
		return s, err
	}
	s, _, err = fetch[standing](tx, endedBucket, key)
	return s, err
}

// stillAccepted reports whether a message that is not in the queue is there, and
// nothing was done about it.
func stillAccepted(tx store.Tx, seq uint64) (bool, error) {
	if _, ended, err := tx.Get(endedBucket, orderKey(seq)); ended || err != nil {
		return false, err
	}
	_, there, err := tx.Get(messagesBucket, orderKey(seq))
	return there, err
}

// accepted is where a message is until something is done about it.
func (m *stored) accepted() *standing {
	at := nanosOf(m.At)
	return &standing{State: Pending, Trigger: m.Trigger, Thread: m.Thread, At: at, Updated: at}
}

// span is where those are that nothing was done about, and the last number given
// out.
type span struct{ oldest, last uint64 }

func spanOf(tx store.Tx) (s span, err error) {
	value, ok, err := tx.Get(inboxMeta, seqKey)
	if !ok || err != nil {
		return s, err
	}
	oldest, last, _ := strings.Cut(string(value), " ")
	if s.oldest, err = orderOf(oldest); err == nil {
		s.last, err = orderOf(last)
	}
	return s, err
}

func putSpan(tx store.Tx, s span) error {
	return tx.Put(inboxMeta, seqKey, []byte(orderKey(s.oldest)+" "+orderKey(s.last)))
}

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

func readKnown(value []byte) (known, error) {
	words := strings.Split(string(value), " ")
	if len(words) != 3 {
		return known{}, fault.New(fault.StoreFailed, "record of a known event cannot be read")
	}
	seq, err := orderOf(words[0])
	return known{seq: seq, content: words[1], spot: words[2]}, err
}
