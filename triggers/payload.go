package triggers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

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
	value, ok, err := tx.Get(messagesBucket, orderKey(seq))
	if !ok || err != nil {
		return nil, false, err
	}
	m, err := readStored(value)
	if err == nil && m.Large > 0 {
		m.Event.Payload, err = getParts(tx, seq, m.Large)
	}
	return m, true, err
}

// bytes are a message's record, and the payload if that is kept apart. A record
// is a line of JSON and the payload as it came, which need not be looked through
// to be read.
func (m *stored) bytes() (record, apart []byte, err error) {
	payload, large := m.Event.Payload, 0
	if len(payload) > maxInline {
		apart, payload, large = payload, nil, len(payload)
	}
	record, ok := m.line(large, len(payload))
	if !ok {
		plain := *m
		plain.Event.Payload, plain.Large = nil, large
		record, err = json.Marshal(plain)
	}
	return append(append(record, '\n'), payload...), apart, err
}

// lineMost is what the names in a line, its times and its numbers come to.
const lineMost = 256

// line is what json.Marshal makes of a message without its payload, with room for
// more after it. ok is false for what is seldom there, or cannot be written so.
func (m *stored) line(large, more int) (line []byte, ok bool) {
	ev := &m.Event
	if ev.Identity != nil {
		return nil, false
	}
	size := lineMost + len(m.ID) + len(m.Execution) + len(m.Trigger) + len(m.Connection) + len(m.Thread) +
		len(ev.ID) + len(ev.Type) + len(ev.Cursor) + len(m.Listened)
	l := jsonLine{bytes: make([]byte, 0, size+more)}
	l.text(`{"id":`, m.ID)
	l.text(`,"execution":`, string(m.Execution))
	l.text(`,"trigger":`, string(m.Trigger))
	l.text(`,"connection":`, string(m.Connection))
	l.text(`,"thread":`, string(m.Thread))
	l.text(`,"event":{"kind":`, string(ev.Kind))
	l.textIfAny(`,"id":`, string(ev.ID))
	l.text(`,"type":`, ev.Type)
	l.time(`,"time":`, ev.Time)
	l.textIfAny(`,"cursor":`, string(ev.Cursor))
	l.time(`},"at":`, m.At)
	l.textIfAny(`,"listened":`, m.Listened)
	if large > 0 {
		l.bytes = strconv.AppendInt(append(l.bytes, `,"large":`...), int64(large), 10)
	}
	if m.Unplaced {
		l.plain(`,"unplaced":true`)
	}
	if m.Kept {
		l.plain(`,"kept":true`)
	}
	l.plain("}")
	return l.bytes, !l.odd
}

// asRead is the message of an item as reading its record makes it, without reading
// it; nil if that is not worth it, or not the same.
func (it *item) asRead() *stored {
	line, payload, _ := bytes.Cut(it.record, []byte("\n"))
	if len(it.apart) > 0 || bytes.Contains(line, []byte(`\ufffd`)) { // which stands for what is no text
		return nil
	}
	m := it.message
	m.At, m.Event.Time = m.At.Round(0), m.Event.Time.Round(0) // a record has no monotonic clock
	if m.Event.Payload = nil; len(payload) > 0 {
		m.Event.Payload = payload // and not the source's own, which may change
	}
	if m.Event.Identity != nil {
		m.Event.Identity = new(*m.Event.Identity)
	}
	return &m
}

// readStored reads a record, without a payload that is kept apart.
func readStored(record []byte) (*stored, error) {
	line, payload, ok := bytes.Cut(record, []byte("\n"))
	if !ok {
		return nil, fault.New(fault.StoreFailed, "record of the inbox has no end")
	}
	m := new(stored)
	if err := readRecord(line, m); err != nil {
		return nil, err
	}
	if len(payload) > 0 {
		m.Event.Payload = payload
	}
	return m, nil
}
