package ledger

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// Entry is what is known about one step, model round or call.
type Entry struct {
	// Path is where in the execution it belongs.
	Path string `json:"path"`
	// Kind says what it is: the kind of a step, or one of the kinds here.
	Kind string `json:"kind,omitempty"`
	// Pending tells that something was about to be sent and that it is not
	// recorded what came of it.
	Pending bool `json:"pending,omitempty"`
	// Seq orders the entries of an execution: a pending one by when it became so,
	// a settled one by when it was settled.
	Seq int `json:"seq,omitempty"`

	// Of a call or a wait, from before anything is sent:
	Connection string            `json:"connection,omitempty"`
	Op         string            `json:"op,omitempty"`
	Source     string            `json:"source,omitempty"`
	Key        provider.Key      `json:"key,omitempty"`
	Args       json.RawMessage   `json:"args,omitempty"`     // as approved, with names of secrets
	Redacted   bool              `json:"redacted,omitempty"` // Args had credentials in them, and cannot be sent as they stand here
	Secrets    []Place           `json:"secrets,omitempty"`
	Identity   provider.Identity `json:"identity,omitzero"`
	Approval   string            `json:"approval,omitempty"`

	// As they become known:
	Task     provider.TaskID `json:"task,omitempty"`
	Lease    string          `json:"lease,omitempty"`
	Cursor   provider.Cursor `json:"cursor,omitempty"`  // where listening began or got to
	Deadline time.Time       `json:"deadline,omitzero"` // of what has a time of its own, as a wait

	// Items are what a model step added to the conversation, as JSON, and Line is
	// the conversation: the path of the parallel path, the child or the tool that it
	// began with, "" for the execution's own.
	Items json.RawMessage `json:"items,omitempty"`
	Line  string          `json:"line,omitempty"`

	// What it came to. Of a composite step Uses are the connections used beneath
	// it, as they were first seen.
	Output  json.RawMessage              `json:"output,omitempty"`
	Err     *fault.Error                 `json:"err,omitempty"`
	Uses    map[string]provider.Identity `json:"uses,omitempty"`
	Started time.Time                    `json:"started,omitzero"`
	Ended   time.Time                    `json:"ended,omitzero"`
}

// Place is where in the arguments their author put a secret, by name.
type Place struct {
	Path string `json:"path"`
	Name string `json:"name"`
}

// Kinds of entries that are no steps.
const (
	KindRound = "round" // one round of a model: its reply
	KindTool  = "tool"  // one tool call of a model
	KindLease = "lease" // a private connection that a line of steps leased
)

// Entries yields the entries of an execution in the order of their paths. An
// error is the last pair.
func (l *Ledger) Entries(ctx context.Context, id provider.ExecutionID) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		for value, err := range pages(ctx, l.store, entriesBucket, under(entryPrefix(id))) {
			e := new(Entry)
			if err == nil {
				err = decode(value, e)
			}
			if err == nil {
				err = l.store.View(ctx, func(tx store.Tx) error {
					key := entryKey(id, e.Path)
					if e.Output, err = whole(tx, key, e.Output); err != nil {
						return err
					}
					e.Items, err = whole(tx, itemsKey(key), e.Items)
					return err
				})
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// itemsKey is where the items of an entry are kept when they are large.
func itemsKey(entry string) string { return entry + "@items" }

// entryPrefix begins the keys of an execution's entries. Ids contain no colon.
func entryPrefix(id provider.ExecutionID) string { return string(id) + ":" }

// entryKey is the key of an entry. A path that is too long for a key is cut and
// ends in its hash.
func entryKey(id provider.ExecutionID, path string) string {
	return entryPrefix(id) + bounded(path, store.MaxKey-len(id)-1-longTail)
}
