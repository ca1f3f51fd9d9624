package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

const (
	bucketKeys    = "mcpserver/keys"   // records by entry id
	bucketExpiry  = "mcpserver/expiry" // entry ids by time, nothing else
	bucketCount   = "mcpserver/count"  // how many records there are
	keyCount      = "keys"             // the only one in bucketCount
	recordVersion = 1                  // of record
	sweepLimit    = 32                 // expired records removed at a time
	maxRecord     = 1 << 20            // bytes that every store takes
)

// keys remembers which once operations were carried out.
type keys struct {
	store store.Store
	keep  time.Duration
	most  int
}

// entry is one key of one user, and what it was sent with.
type entry struct {
	id    string
	print string
}

// newEntry hashes what is long, or not for everyone's eyes.
func newEntry(op *operation, user string, key provider.Key, args json.RawMessage) *entry {
	return &entry{id: digest(user, string(key)), print: digest(op.name, string(args))}
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// record is what is stored about an entry. Without an outcome its handler began
// and nobody has heard how it ended.
type record struct {
	Version int       `json:"v"`
	Print   string    `json:"print"`
	Expires time.Time `json:"expires"`
	Outcome *outcome  `json:"outcome,omitempty"`
}

// errFull says that there is no room for another key.
var errFull = errors.New("too many keys are remembered")

// begin looks an entry up. It returns what is known about it, or notes that its
// handler begins now, which a repeatable one need not.
func (s *keys) begin(ctx context.Context, e *entry, repeatable bool) (known answer, ok bool) {
	err := s.store.View(ctx, func(tx store.Tx) error {
		r, err := load(tx, e)
		known, ok = verdict(r, e, repeatable)
		if err != nil || r != nil || !repeatable {
			return err
		}
		return s.room(tx)
	})
	if err == nil && !ok && !repeatable || errors.Is(err, errFull) {
		err = s.store.Update(ctx, func(tx store.Tx) error {
			r, err := load(tx, e)
			if err != nil {
				return err
			}
			if known, ok = verdict(r, e, repeatable); ok || r != nil {
				return nil
			}
			if !repeatable {
				return s.put(tx, e, nil, nil)
			}
			return errors.Join(sweep(tx), s.room(tx))
		})
	}
	switch {
	case errors.Is(err, errFull):
		return refuse(codeFull, "the server remembers as many keys as it may; try again later"), true
	case err != nil:
		return refuse(codeStore, "the key cannot be recorded, so nothing was done: %v", err), true
	}
	return known, ok
}

// verdict is what a record says about a call with its key.
func verdict(r *record, e *entry, repeatable bool) (answer, bool) {
	switch {
	case r == nil:
		return answer{}, false
	case r.Print != e.print:
		return reused(), true
	case r.Outcome != nil:
		return answer{outcome: r.Outcome}, true
	case repeatable:
		return answer{}, false
	}
	return answer{unknown: "an earlier call with this key began and left no outcome"}, true
}

// keepOutcome records an outcome, unless there is one, and returns the one that
// counts.
func (s *keys) keepOutcome(ctx context.Context, e *entry, o *outcome) (kept *outcome, err error) {
	err = s.store.Update(ctx, func(tx store.Tx) error {
		r, err := load(tx, e)
		if err != nil {
			return err
		}
		if kept = o; r != nil && r.Outcome != nil {
			kept = r.Outcome
			return nil
		}
		return s.put(tx, e, r, o)
	})
	return kept, err
}

// forget frees a key whose handler did nothing.
func (s *keys) forget(ctx context.Context, e *entry) error {
	var r *record
	err := s.store.View(ctx, func(tx store.Tx) (err error) { r, err = load(tx, e); return err })
	if err != nil || r == nil || r.Outcome != nil {
		return err
	}
	return s.store.Update(ctx, func(tx store.Tx) error {
		r, err := load(tx, e)
		if err != nil || r == nil || r.Outcome != nil {
			return err
		}
		return remove(tx, e.id, stamp(r.Expires))
	})
}

// load reads the record of an entry; nil if there is none, or it expired.
func load(tx store.Tx, e *entry) (*record, error) {
	r, err := read(tx, e)
	if err != nil || r == nil || !time.Now().Before(r.Expires) {
		return nil, err
	}
	return r, nil
}

func read(tx store.Tx, e *entry) (*record, error) {
	raw, ok, err := tx.Get(bucketKeys, e.id)
	if err != nil || !ok {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(raw, &r); err != nil || r.Version != recordVersion {
		return nil, fault.New(fault.StoreUnsupported, "the record of a key has a format that this version does not know").
			WithHint("Use the version that wrote it, or a newer one.")
	}
	return &r, nil
}

// put writes the record of an entry; old is the one that there is.
func (s *keys) put(tx store.Tx, e *entry, old *record, o *outcome) error {
	r := record{Version: recordVersion, Print: e.print, Outcome: o}
	if old != nil {
		r.Expires = old.Expires
	} else {
		r.Expires = time.Now().Add(s.keep).UTC()
		if err := s.enter(tx, e, r.Expires); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(raw) > maxRecord {
		return fault.New(fault.ResultInvalid, "an outcome of %d bytes is too large to keep", len(raw))
	}
	return tx.Put(bucketKeys, e.id, raw)
}

// enter counts another record in, in place of an expired one.
func (s *keys) enter(tx store.Tx, e *entry, expires time.Time) error {
	stale, err := read(tx, e)
	if err != nil {
		return err
	}
	if stale != nil {
		err = remove(tx, e.id, stamp(stale.Expires))
	}
	if err = errors.Join(err, sweep(tx)); err != nil {
		return err
	}
	if err := s.room(tx); err != nil {
		return err
	}
	return errors.Join(count(tx, 1), tx.Put(bucketExpiry, stamp(expires)+e.id, nil))
}

// room is errFull if no further record may be made.
func (s *keys) room(tx store.Tx) error {
	n, err := counted(tx)
	if err == nil && n >= s.most {
		return errFull
	}
	return err
}

// sweep removes some of what expired. Each new key removes more than it adds.
func sweep(tx store.Tx) error {
	now := time.Now().Add(1) // what ends now has ended
	for r, err := range tx.Scan(bucketExpiry, store.Range{To: stamp(now), Limit: sweepLimit}) {
		if err != nil {
			return err
		}
		if err := remove(tx, r.Key[stampSize:], r.Key[:stampSize]); err != nil {
			return err
		}
	}
	return nil
}

func remove(tx store.Tx, id, at string) error {
	return errors.Join(tx.Delete(bucketKeys, id), tx.Delete(bucketExpiry, at+id), count(tx, -1))
}

// stampSize is the length of a stamp, whose order is that of time.
const stampSize = 16

func stamp(t time.Time) string { return fmt.Sprintf("%0*x", stampSize, t.UnixNano()) }

func counted(tx store.Tx) (int, error) {
	raw, ok, err := tx.Get(bucketCount, keyCount)
	if err != nil || !ok {
		return 0, err
	}
	return strconv.Atoi(string(raw))
}

func count(tx store.Tx, by int) error {
	n, err := counted(tx)
	if err != nil {
		return err
	}
	return tx.Put(bucketCount, keyCount, []byte(strconv.Itoa(n+by)))
}
