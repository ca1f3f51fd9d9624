package gates

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
)

const (
	maxRecordLine  = 128 << 10 // bytes, more than a clipped record can have
	maxRecordDepth = 8
	hashMember     = `{"hash":"`
)

// Head is a place in a chain of records: the last one that is known.
type Head struct {
	Seq  int64  `json:"seq"`  // of that record; 0 if there is none
	Hash string `json:"hash"` // of that record
}

// seal gives a record its place after head, and returns it with its line:
// canonical JSON (RFC 8785), but with the hash in front, of what follows it.
func seal(r *Record, head Head) (linked Record, line []byte) {
	linked = r.clipped()
	linked.Seq, linked.Prev, linked.Hash = head.Seq+1, head.Hash, ""
	body := linked.canonical()
	linked.Hash = digestOf(body)
	line = make([]byte, 0, len(hashMember)+digestLen+2+len(body))
	line = append(append(line, hashMember...), linked.Hash...)
	return linked, append(append(line, `",`...), body[1:]...)
}

// head is the place of a record that has one.
func (r *Record) head() Head { return Head{r.Seq, r.Hash} }

// unseal reads the line of a record and checks that it is as it was sealed. The
// text tells what is wrong, "" if nothing is.
func unseal(line []byte) (r Record, wrong string) {
	rest, ok := bytes.CutPrefix(line, []byte(hashMember))
	if !ok || len(rest) < digestLen+2 {
		return Record{}, "is no record"
	}
	hash := string(rest[:digestLen])
	// The quote and the comma after the hash give way to the bracket before it.
	body := append([]byte{'{'}, rest[digestLen+2:]...)
	if !bytes.HasPrefix(rest[digestLen:], []byte(`",`)) || digestOf(body) != hash {
		return Record{}, "was altered"
	}
	canonical, _, issue := schema.Canonical(body, maxRecordDepth)
	if issue != nil || !bytes.Equal(canonical, body) || json.Unmarshal(body, &r) != nil {
		return Record{}, "is no record"
	}
	r.Hash = hash
	return r, ""
}

// follows tells what is wrong with r as the one after head, "" if nothing is.
func (h Head) follows(r *Record) string {
	switch {
	case r.Seq > h.Seq+1:
		return "is where another should be: records before it are missing"
	case r.Seq <= h.Seq:
		return "is out of place, or there a second time"
	case r.Prev != h.Hash:
		return "follows another record than the one before it"
	}
	return ""
}

// turn lets one writer after another pass. Unlike a mutex it heeds contexts.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.From(context.Cause(ctx), fault.Cancelled)
	}
}

func (t turn) pass() { <-t }

// Chained links the records that go to a sink, as the sinks of this package that
// keep records do by themselves: each gets its Seq, the hash of the one before
// it, and its own Hash, and they reach the sink in that order, one at a time.
// after is where the chain goes on, the zero Head for a new one.
//
// If the sink fails, the next record takes the failed one's place.
func Chained(sink Sink, after Head) Sink { return &chained{sink: sink, head: after, turn: newTurn()} }

type chained struct {
	sink Sink
	turn turn
	head Head // belongs to whoever has the turn
}

func (c *chained) Write(ctx context.Context, r *Record) error {
	if err := c.turn.take(ctx); err != nil {
		return err
	}
	defer c.turn.pass()
	linked, _ := seal(r, c.head)
	next := linked.head() // before the sink has the record
	if err := c.sink.Write(ctx, &linked); err != nil {
		return err
	}
	c.head = next
	return nil
}
