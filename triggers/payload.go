package triggers

import (
	"encoding/json"
	"fmt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

const (
	// maxInline is how long a payload may be to stand in its message's record.
	maxInline = 128 << 10
	// part is less than what every engine takes as one value.
	part = 512 << 10
)

func partKey(seq uint64, i int) string { return fmt.Sprintf("%s:%06d", orderKey(seq), i) }

// putParts stores a payload that is too long for a record.
func putParts(tx store.Tx, seq uint64, payload []byte) error {
	for i := 0; i*part < len(payload); i++ {
		if err := tx.Put(largeBucket, partKey(seq, i), payload[i*part:min(len(payload), (i+1)*part)]); err != nil {
			return err
		}
	}
	return nil
}

// getParts returns a payload that putParts stored.
func getParts(tx store.Tx, seq uint64, length int) (json.RawMessage, error) {
	payload := make([]byte, 0, length)
	for i := 0; len(payload) < length; i++ {
		piece, ok, err := tx.Get(largeBucket, partKey(seq, i))
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fault.New(fault.StoreFailed, "inbox lost a part of a payload: %d of %d bytes are there", len(payload), length)
		}
		payload = append(payload, piece...)
	}
	return payload, nil
}

// deleteParts removes a payload.
func deleteParts(tx store.Tx, seq uint64, length int) error {
	for i := 0; i*part < length; i++ {
		if err := tx.Delete(largeBucket, partKey(seq, i)); err != nil {
			return err
		}
	}
	return nil
}

// getMessage reads what was accepted, with its whole payload.
func getMessage(tx store.Tx, seq uint64) (*stored, bool, error) {
	m, ok, err := fetch[stored](tx, messagesBucket, orderKey(seq))
	if ok && err == nil && m.Large > 0 {
		m.Event.Payload, err = getParts(tx, seq, m.Large)
	}
	return m, ok, err
}

// bytes are a message's record, and the payload if that is kept apart.
func (m stored) bytes() (record, apart []byte, err error) {
	if m.Large = 0; len(m.Event.Payload) > maxInline {
		apart, m.Event.Payload = m.Event.Payload, nil
		m.Large = len(apart)
	}
	record, err = json.Marshal(m)
	return record, apart, err
}
