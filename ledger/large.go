package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

const (
	// maxInline is how long an output may be to stand in its record.
	maxInline = 128 << 10
	// chunk is less than what every engine takes as one value.
	chunk = 512 << 10
	// page is how many records are read at once.
	page = 64
	// longTail is what is kept free of a key: the hash of a long path, and the
	// number of a chunk.
	longTail = 96
)

// elsewhere stands in a record for an output that is kept in chunks.
type elsewhere struct {
	Bytes int `json:"$ledger.bytes"`
}

// keep stores an output and returns what stands for it in its record.
func keep(tx store.Tx, key string, out json.RawMessage) (json.RawMessage, error) {
	if len(out) <= maxInline {
		return out, nil
	}
	for i := 0; i*chunk < len(out); i++ {
		part := out[i*chunk : min(len(out), (i+1)*chunk)]
		if err := tx.Put(largeBucket, chunkKey(key, i), part); err != nil {
			return nil, err
		}
	}
	return json.Marshal(elsewhere{len(out)})
}

// whole returns the output that is kept for a record.
func whole(tx store.Tx, key string, kept json.RawMessage) (json.RawMessage, error) {
	const mark = `{"$ledger.bytes":`
	if len(kept) < len(mark) || string(kept[:len(mark)]) != mark {
		return kept, nil
	}
	// An output that happens to look like this has no chunks, and is itself.
	var at elsewhere
	if json.Unmarshal(kept, &at) != nil {
		return kept, nil
	}
	var out json.RawMessage
	for i := 0; ; i++ {
		part, ok, err := tx.Get(largeBucket, chunkKey(key, i))
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		out = append(out, part...)
	}
	switch {
	case len(out) == 0 && at.Bytes <= maxInline:
		return kept, nil
	case len(out) != at.Bytes:
		return nil, fault.New(fault.StoreFailed, "the ledger lost a part of an output: %d of %d bytes are there", len(out), at.Bytes)
	}
	return out, nil
}

func chunkKey(key string, i int) string { return fmt.Sprintf("%s:%06d", key, i) }

// bounded returns text, cut and with its hash at the end if it is too long.
func bounded(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return text[:limit-2*len(sum)] + hex.EncodeToString(sum[:])
}

// under is the range of the keys with a prefix.
func under(prefix string) store.Range { return store.Range{Prefix: prefix} }

// pages yields the values of the keys in a range. It reads some at a time, so
// that no transaction is open while the loop runs.
func pages(ctx context.Context, s store.Store, bucket string, r store.Range) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r := r // ranging again begins again
		r.Limit = page
		for {
			var found []store.Record
			err := s.View(ctx, func(tx store.Tx) error {
				found = found[:0]
				for rec, err := range tx.Scan(bucket, r) {
					if err != nil {
						return err
					}
					found = append(found, rec)
				}
				return nil
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, rec := range found {
				if !yield(rec.Value, nil) {
					return
				}
			}
			if len(found) < page {
				return
			}
			r.From = found[len(found)-1].Key + "\x00"
		}
	}
}
