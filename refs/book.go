package refs

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

const (
	keysBucket = "refs/keys"
	// stateKey is the record that says which key seals.
	stateKey = "state"
	// keyPrefix precedes a key's id in its record's name.
	keyPrefix = "key/"
	// secretSize is the output of SHA-256, the length RFC 2104 asks for.
	secretSize = 32
	// idSize is the length of a key's id in bytes, which is spelled in hex.
	idSize = 8
)

// book are the keys as they are in the store.
type book struct {
	current    string
	generation int64
	keys       map[string]keyRecord
	removed    []string
}

// stateRecord is the JSON of stateKey. Each change has a generation of its own.
type stateRecord struct {
	Current    string `json:"current"`
	Generation int64  `json:"generation"`
}

// keyRecord is the JSON of one key.
type keyRecord struct {
	Secret  []byte    `json:"secret"`
	Created time.Time `json:"created"`
}

func readBook(tx store.Tx) (*book, error) {
	b := &book{keys: map[string]keyRecord{}}
	value, ok, err := tx.Get(keysBucket, stateKey)
	if err != nil || !ok {
		return b, err
	}
	var state stateRecord
	if err := json.Unmarshal(value, &state); err != nil {
		return nil, fault.New(fault.StoreFailed, "the record of the ref keys is damaged")
	}
	for record, err := range tx.Scan(keysBucket, store.Range{Prefix: keyPrefix}) {
		if err != nil {
			return nil, err
		}
		id := strings.TrimPrefix(record.Key, keyPrefix)
		var key keyRecord
		if err := json.Unmarshal(record.Value, &key); err != nil || len(key.Secret) != secretSize {
			return nil, fault.New(fault.StoreFailed, "the ref key %s is damaged", fault.Quote(id))
		}
		b.keys[id] = key
	}
	b.current, b.generation = state.Current, state.Generation
	if _, ok := b.keys[b.current]; !ok {
		return nil, fault.New(fault.StoreFailed, "the ref key %s that seals is missing", fault.Quote(b.current))
	}
	return b, nil
}

// add makes a key that seals from now on.
func (b *book) add() {
	secret, id := make([]byte, secretSize), make([]byte, idSize)
	rand.Read(secret) // never fails, by its documentation
	rand.Read(id)
	b.current = hex.EncodeToString(id)
	b.keys[b.current] = keyRecord{Secret: secret, Created: time.Now().UTC()}
}

func (b *book) remove(id string) {
	if _, ok := b.keys[id]; ok {
		delete(b.keys, id)
		b.removed = append(b.removed, id)
	}
}

// write stores the book as the next generation.
func (b *book) write(tx store.Tx) error {
	b.generation++
	for _, id := range b.removed {
		if err := tx.Delete(keysBucket, keyPrefix+id); err != nil {
			return err
		}
	}
	for id, key := range b.keys {
		if err := put(tx, keysBucket, keyPrefix+id, key); err != nil {
			return err
		}
	}
	return put(tx, keysBucket, stateKey, stateRecord{Current: b.current, Generation: b.generation})
}

// put stores a record as JSON.
func put(tx store.Tx, bucket, key string, record any) error {
	value, err := json.Marshal(record)
	if err != nil {
		return fault.New(fault.StoreFailed, "encode the record %s of %s: %w", fault.Quote(key), bucket, err)
	}
	return tx.Put(bucket, key, value)
}

func (b *book) ring() *ring {
	r := &ring{generation: b.generation, all: make(map[string]*signer, len(b.keys))}
	for id, key := range b.keys {
		r.all[id] = newSigner(id, key.Secret)
	}
	r.current = r.all[b.current]
	return r
}

// keyID reports whether a text can be the id of a key, so that nothing else is
// looked for in the store.
func keyID(text string) bool {
	decoded, err := hex.DecodeString(text)
	return err == nil && len(decoded) == idSize && text == strings.ToLower(text)
}
