package ledger

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// format is the version of the records. A change that older code would misread
// counts it up.
const format = 1

const (
	metaBucket       = "ledger/meta"
	executionsBucket = "ledger/executions"
	entriesBucket    = "ledger/entries"
	largeBucket      = "ledger/large"
	attemptsBucket   = "ledger/attempts" // which attempt at an execution may write
	endedBucket      = "ledger/ended"    // by time of ending, for retention
	rerunsBucket     = "ledger/reruns"   // of calls, by the key of the first time

	formatKey = "format"
)

// Ledger is the record of all executions in one store.
type Ledger struct{ store store.Store }

// Open returns the ledger that is kept in s, and begins it if there is none. A
// ledger of a newer format is STORE_UNSUPPORTED.
func Open(ctx context.Context, s store.Store) (*Ledger, error) {
	l := &Ledger{store: s}
	var found string
	err := s.View(ctx, func(tx store.Tx) error {
		value, _, err := tx.Get(metaBucket, formatKey)
		found = string(value)
		return err
	})
	if err != nil {
		return nil, err
	}
	switch version, err := strconv.Atoi(found); {
	case found == "":
		return l, s.Update(ctx, func(tx store.Tx) error {
			return tx.Put(metaBucket, formatKey, []byte(strconv.Itoa(format)))
		})
	case err != nil || version < 1:
		return nil, fault.New(fault.StoreFailed, "ledger's format %s cannot be read", fault.Quote(found))
	case version > format:
		return nil, fault.New(fault.StoreUnsupported, "ledger has format %d, and this version knows %d", version, format).
			WithHint("Use the version of Bridle that wrote it, or a newer one.")
	}
	return l, nil
}

// State is where an execution is in its life. States are persisted; the list is
// append-only.
type State string

// The states.
const (
	Running   State = "running" // or its process died
	Done      State = "done"
	Failed    State = "failed"    // may be resumed
	Cancelled State = "cancelled" // given up by whoever asked for it
)

// Execution is one resumable run.
type Execution struct {
	ID     provider.ExecutionID `json:"id"`
	Thread provider.ThreadID    `json:"thread"`
	State  State                `json:"state"`
	// Turn tells a turn of a thread from a direct run.
	Turn bool `json:"turn,omitempty"`
	// Event tells a turn that an event began. It may be gone on with after it
	// failed, as its inbox attempts the event again.
	Event bool `json:"event,omitempty"`
	// Messages are those that the turn answers.
	Messages []string `json:"messages,omitempty"`
	// Step is the id of the outermost step.
	Step string `json:"step,omitempty"`
	// Started is when it began for the first time, Updated when it was last
	// begun, resumed or ended.
	Started time.Time `json:"started"`
	Updated time.Time `json:"updated"`
	// Attempts counts how often it was begun or resumed.
	Attempts int `json:"attempts"`
	// Steps is how many entries are settled; it is counted when the execution
	// ends.
	Steps int `json:"steps,omitempty"`
	// Err is what it failed with, as text without secrets.
	Err string `json:"err,omitempty"`
	// Kept tells of a turn that failed because it could not be taken up: its
	// messages wait for it, and it is not trimmed. See [Ledger.Keep].
	Kept bool `json:"kept,omitempty"`
}

// record is an execution as it is stored.
type record struct {
	Execution
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Fault  *fault.Error    `json:"fault,omitempty"`
}

// Execution returns what is known about an execution, and whether there is one.
func (l *Ledger) Execution(ctx context.Context, id provider.ExecutionID) (*Execution, bool, error) {
	var r *record
	err := l.store.View(ctx, func(tx store.Tx) error {
		var err error
		r, err = load(tx, id)
		return err
	})
	if r == nil || err != nil {
		return nil, false, err
	}
	return &r.Execution, true, nil
}

// Executions yields all executions in the order of their ids. An error is the
// last pair.
func (l *Ledger) Executions(ctx context.Context) iter.Seq2[*Execution, error] {
	return l.ExecutionsAfter(ctx, "")
}

// ExecutionsAfter yields the executions whose ids come after one, which need not
// exist, in the order of their ids. It reads none of those before and few more
// than are asked for, so that a list can be read in parts. An error is the last
// pair.
func (l *Ledger) ExecutionsAfter(ctx context.Context, id provider.ExecutionID) iter.Seq2[*Execution, error] {
	return func(yield func(*Execution, error) bool) {
		var all store.Range
		if id != "" {
			all.From = string(id) + "\x00"
		}
		for value, err := range pages(ctx, l.store, executionsBucket, all) {
			x := new(Execution)
			if err == nil {
				err = decode(value, x)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(x, nil) {
				return
			}
		}
	}
}

// Result returns what an execution that ended came to: its output, or the error
// it failed with. ok is false while it has not ended.
func (l *Ledger) Result(ctx context.Context, id provider.ExecutionID) (out json.RawMessage, failed *fault.Error, ok bool, err error) {
	err = l.store.View(ctx, func(tx store.Tx) error {
		r, err := load(tx, id)
		if r == nil || err != nil || r.State == Running {
			return err
		}
		ok, failed = true, r.Fault
		out, err = whole(tx, outputKey(id), r.Output)
		return err
	})
	return out, failed, ok, err
}

// Asked is a message that a turn began with, as Input has it.
type Asked struct {
	Message string          `json:"message"` // its id
	Items   json.RawMessage `json:"items"`   // a list of model items
}

// Input returns what an execution began with: the input of a run, or the messages
// of a turn as a list of [Asked]. An execution that there is not is
// EXECUTION_UNKNOWN.
func (l *Ledger) Input(ctx context.Context, id provider.ExecutionID) (input json.RawMessage, err error) {
	err = l.store.View(ctx, func(tx store.Tx) error {
		r, err := load(tx, id)
		switch {
		case err != nil:
			return err
		case r == nil:
			return unknown(id)
		case r.Turn && len(r.Input) == 0: // of one that an event began there is more than its message
			input, err = asked(tx, r.Messages)
		default:
			input, err = whole(tx, inputKey(id), r.Input)
		}
		return err
	})
	return input, err
}

// asked are messages as JSON.
func asked(tx store.Tx, ids []string) (json.RawMessage, error) {
	all := []Asked{}
	for _, id := range ids {
		m, err := loadMessage(tx, id)
		if err != nil {
			return nil, err
		}
		if m != nil {
			all = append(all, Asked{m.ID, m.Items})
		}
	}
	return json.Marshal(all)
}

func load(tx store.Tx, id provider.ExecutionID) (*record, error) {
	value, ok, err := tx.Get(executionsBucket, string(id))
	if !ok || err != nil {
		return nil, err
	}
	r := new(record)
	return r, decode(value, r)
}

func decode(value []byte, into any) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fault.New(fault.StoreFailed, "record of the ledger cannot be read: %w", err)
	}
	return nil
}

func put(tx store.Tx, bucket, key string, v any) error {
	value, err := encode(v)
	if err != nil {
		return err
	}
	return tx.Put(bucket, key, value)
}

func encode(v any) ([]byte, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return nil, fault.New(fault.StoreFailed, "record of the ledger cannot be written: %w", err)
	}
	return value, nil
}
