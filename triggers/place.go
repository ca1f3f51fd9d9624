package triggers

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

// maxMessageID is less than what a store takes as a key.
const maxMessageID = 512

// arrival is what one event of a stream comes to.
type arrival struct {
	stream *stream
	cursor Cursor
	gap    bool
	anew   bool    // the stream begins at the cursor, wherever it was
	missed Skipped // of a gap in a schedule
	items  []item  // one for each trigger that takes it
}

// item is an event that a trigger takes, ready to be stored. What a transaction
// makes of it is set by each run of the transaction.
type item struct {
	trigger  *trigger
	message  stored
	standing standing
	content  string // digest of what happened
	record   []byte // message as it is stored
	apart    []byte // its payload, if that is stored apart

	seq      uint64
	stored   bool
	conflict bool
}

// arrive decides what an event comes to: for each trigger the filter, the thread,
// and the seals of that thread. An error means that it could not be decided now.
func (i *Inbox) arrive(ctx context.Context, s *stream, ev Event) (a arrival, err error) {
	a.stream, a.cursor = s, ev.Cursor
	switch ev.Kind {
	case provider.EventCursor:
		return a, nil
	case provider.EventGap:
		a.gap = true
		if s.schedule != nil {
			a.missed, _ = provider.Decode[Skipped](ev)
		}
		return a, nil
	}
	a.items = make([]item, 0, len(s.triggers))
	for _, t := range s.triggers {
		it, taken, err := i.take(ctx, t, ev)
		switch {
		case err == nil && !taken:
			t.book.add(func(s *TriggerStatus) { s.Filtered++ })
		case err == nil:
			a.items = append(a.items, it)
		case passing(err):
			return a, err
		default:
			i.refuse(t, ev, err)
		}
	}
	return a, nil
}

// take makes an item of an event. taken is false if the filter refuses it.
func (i *Inbox) take(ctx context.Context, t *trigger, ev Event) (it item, taken bool, err error) {
	id := idOf(ev)
	if id == "" {
		return it, false, fault.New(fault.ResultInvalid, "event has neither an id nor a cursor").
			WithHint("Have the source give each event an id that stays the same when it is sent again.")
	}
	seen, err := i.see(ctx, t, ev)
	if err != nil {
		return it, false, err
	}
	if err := storable(&seen); err != nil {
		return it, false, err
	}
	now := time.Now()
	m := &it.message
	*m = stored{ID: messageID(&t.Trigger, id, idOf(seen)), Execution: newExecution(now), Trigger: t.ID, Connection: t.Connection, At: now}
	if seen.Type != t.Event {
		m.Listened = t.Event
	}
	it.trigger, it.content = t, digestOf(seen)
	it.standing = standing{State: Pending, Trigger: t.ID, At: nanosOf(m.At), Updated: nanosOf(m.At)}
	placed, ok, err := i.settleIn(ctx, t, m.Execution, seen)
	switch {
	case passing(err):
		i.release(ctx, m.Execution)
		return it, false, err
	case err != nil:
		m.Unplaced, m.Kept, m.Thread, m.Event = true, true, ownThread(t), seen
		it.standing.State, it.standing.Err = Dead, i.brief(err)
	case !ok:
		return it, false, nil
	default:
		m.Thread, m.Event = placed.thread, placed.event
		m.Kept = !bytes.Equal(seen.Payload, placed.event.Payload)
	}
	it.standing.Thread = m.Thread
	it.record, it.apart, err = m.bytes()
	return it, true, err
}

// spot is where an event belongs, and the event as it is there.
type spot struct {
	thread provider.ThreadID
	event  Event
}

// settleIn asks the trigger's functions about an event and seals it for its
// thread. ok is false if it is not for this trigger.
func (i *Inbox) settleIn(ctx context.Context, t *trigger, id provider.ExecutionID, ev Event) (at spot, ok bool, err error) {
	if ok, err = i.filter(t, ev); err != nil || !ok {
		return at, false, err
	}
	if at.thread, err = i.thread(t, ev); err != nil {
		return at, false, err
	}
	at.event, err = i.seal(ctx, t, Place{Thread: at.thread, Execution: id}, ev)
	return at, err == nil, err
}

func (i *Inbox) see(ctx context.Context, t *trigger, ev Event) (seen Event, err error) {
	if i.config.See == nil {
		return ev, nil
	}
	defer contained("the way back of an event", &err)
	return i.config.See(ctx, &t.Trigger, ev)
}

func (i *Inbox) seal(ctx context.Context, t *trigger, at Place, ev Event) (sealed Event, err error) {
	if i.config.Seal == nil {
		return ev, nil
	}
	defer contained("the sealing of an event", &err)
	return i.config.Seal(ctx, &t.Trigger, at, ev)
}

func (i *Inbox) filter(t *trigger, ev Event) (ok bool, err error) {
	if t.Filter == nil {
		return true, nil
	}
	err = i.apart("Trigger.Filter", func() (err error) {
		ok, err = t.Filter(ev)
		return functionError("Trigger.Filter", err)
	})
	return ok, err
}

func (i *Inbox) thread(t *trigger, ev Event) (thread provider.ThreadID, err error) {
	if t.Thread != nil {
		if thread, err = i.chosen(t, ev); err != nil {
			return "", err
		}
	}
	if thread == "" && i.config.Natural != nil {
		thread, _ = i.config.Natural(&t.Trigger, ev)
	}
	if thread == "" {
		return ownThread(t), nil
	}
	return thread, checkThread(thread)
}

// chosen is the thread that the trigger's function chooses.
func (i *Inbox) chosen(t *trigger, ev Event) (thread provider.ThreadID, err error) {
	err = i.apart("Trigger.Thread", func() (err error) {
		thread, err = t.Thread(ev)
		return functionError("Trigger.Thread", err)
	})
	return thread, err
}

func (i *Inbox) input(t *trigger, ev Event) (text string, err error) {
	if t.Input == nil {
		return string(ev.Payload), nil
	}
	err = i.apart("Trigger.Input", func() (err error) {
		text, err = t.Input(ev)
		return functionError("Trigger.Input", err)
	})
	return text, err
}

func ownThread(t *trigger) provider.ThreadID { return provider.ThreadID(t.ID) }

// functionError says which function failed. Errors of a trigger's functions are
// about the event and not about the moment, whatever code they have.
func functionError(name string, err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.StepFailed, "%s failed: %w", name, err)
}

// passing reports whether an error is about the moment: the same event may be
// stored later.
func passing(err error) bool {
	switch fault.CodeOf(err) {
	case fault.Closed, fault.StoreFailed, fault.Cancelled, fault.Timeout, fault.Unavailable, fault.NotSent:
		return true
	}
	return false
}

// maxStoredDepth is how deeply a payload may be nested: as much as encoding/json
// reads.
const maxStoredDepth = 10_000

// storable mends what can be mended, and refuses what no record can hold.
func storable(ev *Event) error {
	if len(ev.Payload) > 0 && schema.Valid(ev.Payload, maxStoredDepth) != nil {
		return fault.New(fault.ResultInvalid, "payload is not JSON").WithHint("Have the source send JSON.")
	}
	if y := ev.Time.UTC().Year(); y < 1 || y > 9998 {
		ev.Time = time.Time{}
	}
	ev.Time = ev.Time.UTC() // a record can hold no zone with odd seconds
	return nil
}

// idOf is the id of an event, or what stands for it; "" if there is neither.
func idOf(ev Event) provider.EventID {
	if ev.ID == "" && ev.Cursor != "" {
		return provider.EventID("cursor:" + string(ev.Cursor))
	}
	return ev.ID
}

// messageID is what an event is known by: the same event of the same trigger has
// the same one. Ids that cannot stand in a key, or must not be seen as they are, are
// cut, and end in the digest of the whole; seen is the id without credentials.
func messageID(t *Trigger, id, seen provider.EventID) string {
	before := string(t.Connection) + ":" + string(t.ID) + ":"
	plain := id == seen && utf8.ValidString(string(id)) && !strings.ContainsFunc(string(id), unicode.IsControl)
	if plain && len(before)+len(id) <= maxMessageID && !looksCut(id) {
		return before + string(id)
	}
	sum := sha256.Sum256([]byte(id))
	id = seen
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '_'
		}
		return r
	}, string(id[:min(len(id), 64)]))
	return before + text + "~" + hex.EncodeToString(sum[:])
}

// looksCut tells ids that would be taken for one that was cut.
func looksCut(id provider.EventID) bool {
	at := len(id) - hex.EncodedLen(sha256.Size) - 1
	if at < 0 || id[at] != '~' {
		return false
	}
	_, err := hex.DecodeString(string(id[at+1:]))
	return err == nil
}

// newExecution makes an id that no one can guess. It begins with the time, so that
// what is accepted together lies together in the store.
func newExecution(now time.Time) provider.ExecutionID {
	var room [64]byte
	id := strconv.AppendInt(append(room[:0], "exe-"...), now.UnixMilli(), 36)
	var random [26]byte         // of five bits each
	_, _ = rand.Read(random[:]) // which ends the process rather than fail
	for _, r := range random {
		id = append(id, "abcdefghijklmnopqrstuvwxyz234567"[r%32])
	}
	return provider.ExecutionID(id)
}

// digestOf tells one event from another that has the same id.
func digestOf(ev Event) string {
	var room [64]byte
	head := strconv.AppendInt(room[:0], int64(len(ev.Type)), 10)
	head = append(append(head, ':'), ev.Type...)
	h := sha256.New()
	h.Write(head)
	h.Write(ev.Payload)
	var text [43]byte // of 256 bits, six each
	base64.RawURLEncoding.Encode(text[:], h.Sum(head[:0]))
	return string(text[:])
}

// brief is an error as it is kept: without credentials, and of bounded length.
func (i *Inbox) brief(err error) *fault.Error {
	if i.config.Clean != nil {
		err = i.config.Clean(err)
	}
	return bounded(fault.From(err, fault.StepFailed))
}

// maxErrorText is how long the text of an error is that is kept, in bytes.
const maxErrorText = 4 << 10

func bounded(f *fault.Error) *fault.Error {
	text := f.Error()
	if len(text) <= maxErrorText {
		return f
	}
	return &fault.Error{Code: f.Code, Connection: f.Connection, Op: f.Op, Step: f.Step,
		Err: errors.New(strings.ToValidUTF8(text[:maxErrorText], "") + "…")}
}
