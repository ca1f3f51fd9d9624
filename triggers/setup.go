package triggers

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

const (
	maxTriggerID = 64
	maxThreadID  = 256
)

// normal returns the limits with their defaults.
func (l InboxLimits) normal() (InboxLimits, error) {
	if min(l.Threads, l.Pending, l.Attempts, l.MaxDone) < 0 || min(l.Pause, l.MaxPause, l.KeepDone, l.KeepDead, l.Remember) < 0 {
		return l, fault.New(fault.HarnessInvalid, "a limit of the inbox is negative").
			WithHint("Leave it 0 for the default.")
	}
	l.Threads, l.Pending = cmp.Or(l.Threads, 64), cmp.Or(l.Pending, 100_000)
	l.Attempts, l.MaxDone = cmp.Or(l.Attempts, 5), cmp.Or(l.MaxDone, 10_000)
	l.Pause = cmp.Or(l.Pause, time.Second)
	l.MaxPause = max(l.Pause, cmp.Or(l.MaxPause, time.Minute))
	const day = 24 * time.Hour
	l.KeepDone, l.KeepDead = cmp.Or(l.KeepDone, 7*day), cmp.Or(l.KeepDead, 30*day)
	l.Remember = cmp.Or(l.Remember, 30*day)
	return l, nil
}

// check finds the mistakes in a trigger that can be seen without its connection.
func (t *Trigger) check() error {
	wrong := func(format string, args ...any) *fault.Error {
		return fault.New(fault.HarnessInvalid, "trigger %s: "+format, append([]any{fault.Quote(string(t.ID))}, args...)...)
	}
	var all []error
	if !t.ID.valid() {
		all = append(all, wrong("id is malformed").
			WithHint("Use a letter followed by letters, digits, _, - or ., at most %d in all.", maxTriggerID))
	}
	if err := t.Connection.Check(); err != nil {
		all = append(all, wrong("connection: %w", err).WithHint("Name a connection of the harness in Trigger.Connection."))
	}
	if t.Event == "" {
		all = append(all, wrong("no event is named").WithHint("Set Trigger.Event to an event of connection %s.", t.Connection))
	}
	if t.Attempts < 0 {
		all = append(all, wrong("attempts are %d", t.Attempts).WithHint("Leave Trigger.Attempts 0 for the default."))
	}
	if t.OnReplaced != DeadOnReplaced && t.OnReplaced != Rerun {
		all = append(all, wrong("OnReplaced is %s", fault.Quote(string(t.OnReplaced))).WithHint("Use triggers.Rerun, or leave it out."))
	}
	return errors.Join(all...)
}

func (id ID) valid() bool {
	for i, c := range []byte(id) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.') {
			return false
		}
	}
	return id != "" && len(id) <= maxTriggerID
}

// trigger is a configured trigger at work. What it counts is in books.
type trigger struct {
	Trigger
	stream *stream
	book   *book
}

// watch makes the triggers and their streams.
func watch(c *InboxConfig) ([]*trigger, []*stream, error) {
	var (
		all     []*trigger
		streams []*stream
		wrong   []error
		ids     = map[ID]bool{}
		byKey   = map[string]*stream{}
	)
	for _, one := range c.Triggers {
		t := &trigger{Trigger: one, book: newBook()}
		if ids[t.ID] {
			wrong = append(wrong, fault.New(fault.HarnessInvalid, "trigger %s is there twice", fault.Quote(string(t.ID))).
				WithHint("Give each trigger an ID of its own."))
		}
		ids[t.ID] = true
		key, err := streamKey(c, &t.Trigger)
		if err = errors.Join(t.check(), err); err != nil {
			wrong = append(wrong, err)
			continue
		}
		if byKey[key] == nil {
			byKey[key] = &stream{key: key, connection: t.Connection, event: t.Event, tried: make(chan struct{})}
			streams = append(streams, byKey[key])
		}
		t.stream = byKey[key]
		t.stream.triggers = append(t.stream.triggers, t)
		all = append(all, t)
	}
	return all, streams, errors.Join(wrong...)
}

// streamKey is what a cursor is kept under: the same for what the source cannot
// tell apart.
func streamKey(c *InboxConfig, t *Trigger) (string, error) {
	args, err := writtenArgs(c, t)
	if err != nil {
		return "", fault.New(fault.HarnessInvalid, "trigger %s: arguments: %w", fault.Quote(string(t.ID)), err).
			WithHint("Give Trigger.Args a value that marshals to a JSON object.")
	}
	sum := sha256.Sum256(append([]byte(t.Event+"\x00"), args...))
	return string(t.Connection) + ":" + hex.EncodeToString(sum[:16]), nil
}

// writtenArgs are the arguments in one spelling; none is the empty object.
func writtenArgs(c *InboxConfig, t *Trigger) ([]byte, error) {
	var raw []byte
	var err error
	switch {
	case t.Args == nil:
		return []byte("{}"), nil
	case c.Args != nil:
		raw, err = c.Args(t)
	default:
		raw, err = json.Marshal(t.Args)
	}
	if err != nil {
		return nil, err
	}
	var object map[string]any
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if err := dec.Decode(&object); err != nil {
		return nil, err
	}
	if object == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(object)
}

// checkThread refuses ids that would be ambiguous in keys or flood a log.
func checkThread(id provider.ThreadID) error {
	bad := func(r rune) bool { return r == ':' || r < 0x20 || r == 0x7f }
	if id == "" || len(id) > maxThreadID || strings.ContainsFunc(string(id), bad) || strings.ToValidUTF8(string(id), "") != string(id) {
		return fault.New(fault.HarnessInvalid, "thread %s is malformed", fault.Quote(string(id))).
			WithHint("Use at most %d bytes of text without colons and control characters.", maxThreadID)
	}
	return nil
}
