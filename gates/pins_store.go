package gates

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

const (
	pinBucket     = "pins"         // a pinRecord for each pinned definition
	changedBucket = "pins/changed" // a pinRecord for each change, under the same key
	pinBatch      = 128            // definitions of one transaction, so that it stays short
	maxKeyName    = 512            // bytes of a name in a key; longer ones are there by their digest
	maxPinName    = maxKeptPart    // bytes of a name that can be pinned
)

// pinRecord is a definition as it is stored.
type pinRecord struct {
	Connection connection.Name `json:"connection"`
	Kind       Kind            `json:"kind"`
	Name       []byte          `json:"name"` // bytes, since it may be no UTF-8
	Digest     string          `json:"digest"`
	Definition keptDefinition  `json:"definition"`
	Seen       time.Time       `json:"seen"`
}

// definition is one that is compared with its pin.
type definition struct {
	key    pinKey
	op     provider.Operation
	digest string
	seen   time.Time
}

func newDefinition(name connection.Name, kind Kind, op provider.Operation) *definition {
	return &definition{key: pinKey{name, kind, op.Name}, op: op, digest: DigestOperation(op), seen: time.Now().UTC()}
}

func (d *definition) record() *pinRecord {
	return &pinRecord{Connection: d.key.connection, Kind: d.key.kind, Name: []byte(d.key.name),
		Digest: d.digest, Definition: keepDefinition(&d.op), Seen: d.seen}
}

// stored is the key of a definition in both buckets. Names of connections and
// kinds contain no "/".
func (k pinKey) stored() string {
	prefix := string(k.connection) + "/" + string(k.kind)
	if len(k.name) > maxKeyName {
		return prefix + "#/" + digestOf([]byte(k.name))
	}
	return prefix + "/" + k.name
}

// found is what comparing with a pin came to.
type found struct {
	pinned bool
	change *Change
	write  func(store.Tx) error // what the store must know; nil if it does
}

// compare looks up what is known of a definition and writes nothing.
func (d *definition) compare(tx store.Tx, firstSeen bool) (found, error) {
	if len(d.key.name) > maxPinName {
		return found{change: d.unpinnable()}, nil
	}
	pin, err := getPin(tx, pinBucket, d.key.stored())
	if err != nil {
		return found{}, err
	}
	changed, err := getPin(tx, changedBucket, d.key.stored())
	switch {
	case err != nil:
		return found{}, err
	case pin == nil && firstSeen:
		return found{pinned: true, write: d.pin}, nil
	case pin == nil:
		return found{}, nil
	case pin.Digest == d.digest && changed == nil:
		return found{pinned: true}, nil
	case pin.Digest == d.digest: // it is back to what it was
		return found{pinned: true, write: d.pin}, nil
	case changed != nil && changed.Digest == d.digest:
		return found{change: pin.change(changed)}, nil
	}
	now := d.record()
	return found{change: pin.change(now), write: func(tx store.Tx) error { return putPin(tx, changedBucket, d.key.stored(), now) }}, nil
}

// unpinnable is a definition that no pin can hold, and that nobody misses.
func (d *definition) unpinnable() *Change {
	return &Change{Connection: d.key.connection, Kind: d.key.kind, Name: clip(d.key.name, maxPointer), Found: d.digest, Seen: d.seen,
		Differences: []Difference{{Path: "/name", Now: summary([]byte(d.key.name))}}}
}

// pin writes the definition down as the one that holds.
func (d *definition) pin(tx store.Tx) error {
	if err := putPin(tx, pinBucket, d.key.stored(), d.record()); err != nil {
		return err
	}
	return tx.Delete(changedBucket, d.key.stored())
}

// compareAll compares definitions, and stores what is new.
func (p *Pins) compareAll(ctx context.Context, all []*definition, firstSeen bool) ([]Change, error) {
	var changes []Change
	for len(all) > 0 {
		batch := all[:min(len(all), pinBatch)]
		all = all[len(batch):]
		results, err := p.compareBatch(ctx, batch, firstSeen)
		if err != nil {
			return changes, err
		}
		for i, r := range results {
			if r.change != nil {
				changes = append(changes, *r.change)
				p.forget(batch[i].key)
				continue
			}
			p.remember(batch[i].key, seenDefinition{batch[i].op, r.pinned})
		}
	}
	return changes, nil
}

// compareBatch writes only if there is something to write, since most often there
// is not.
func (p *Pins) compareBatch(ctx context.Context, batch []*definition, firstSeen bool) (results []found, err error) {
	unknown := false
	compare := func(tx store.Tx) error {
		results, unknown = results[:0], false
		for _, d := range batch {
			r, err := d.compare(tx, firstSeen)
			if err != nil {
				return err
			}
			unknown = unknown || r.write != nil
			results = append(results, r)
		}
		return nil
	}
	if err := p.store.View(ctx, compare); err != nil || !unknown {
		return results, err
	}
	err = p.store.Update(ctx, func(tx store.Tx) error {
		if err := compare(tx); err != nil {
			return err
		}
		for _, r := range results {
			if r.write == nil {
				continue
			}
			if err := r.write(tx); err != nil {
				return err
			}
		}
		return nil
	})
	return results, err
}

// change describes how now differs from the pin.
func (r *pinRecord) change(now *pinRecord) *Change {
	c := &Change{Connection: now.Connection, Kind: now.Kind, Name: string(now.Name), Pinned: r.Digest, Found: now.Digest,
		Seen: now.Seen, Differences: r.Definition.differences(&now.Definition)}
	if len(c.Differences) == 0 {
		c.Differences = []Difference{{Was: r.Digest, Now: now.Digest}}
	}
	return c
}

func acceptChange(tx store.Tx, key pinKey, digest string) error {
	at := key.stored()
	changed, err := getPin(tx, changedBucket, at)
	if err != nil {
		return err
	}
	if changed != nil && changed.Digest == digest {
		if err := putPin(tx, pinBucket, at, changed); err != nil {
			return err
		}
		return tx.Delete(changedBucket, at)
	}
	pin, err := getPin(tx, pinBucket, at)
	if err != nil || changed == nil && pin != nil && pin.Digest == digest {
		return err
	}
	return fault.New(fault.OpChanged, "this change is not the one that waits for a decision").
		At(string(key.connection), key.name).WithHint("Look at Pins.Changed again.")
}

// changedPage reads some changes, and says where the next ones are, "" if there
// are none.
func (p *Pins) changedPage(ctx context.Context, from string) (page []Change, next string, err error) {
	err = p.store.View(ctx, func(tx store.Tx) error {
		page, next = nil, ""
		for rec, err := range tx.Scan(changedBucket, store.Range{From: from, Limit: pinBatch}) {
			if err != nil {
				return err
			}
			now, err := decodePin(rec.Value)
			if err != nil {
				return err
			}
			pin, err := getPin(tx, pinBucket, rec.Key)
			if err != nil {
				return err
			}
			if pin != nil {
				page = append(page, *pin.change(now))
			}
			next = rec.Key + "\x00"
		}
		return nil
	})
	return page, next, err
}

// getPin returns nil if there is none under the stored key.
func getPin(tx store.Tx, bucket, at string) (*pinRecord, error) {
	value, ok, err := tx.Get(bucket, at)
	if err != nil || !ok {
		return nil, err
	}
	return decodePin(value)
}

func decodePin(value []byte) (*pinRecord, error) {
	var r pinRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, fault.New(fault.StoreFailed, "a pin in the store is damaged: %w", err)
	}
	return &r, nil
}

// putPin does without the escapes for HTML, which make schemas longer.
func putPin(tx store.Tx, bucket, at string, r *pinRecord) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return fault.New(fault.StoreFailed, "encode a pin: %w", err)
	}
	return tx.Put(bucket, at, out.Bytes())
}
