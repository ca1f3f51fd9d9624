package gates

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// usualRecord is how many bytes the JSON of a record usually has at most.
const usualRecord = 1 << 10

// canonical is the RFC 8785 form of a clipped record without its hash: what
// encoding/json writes, but with sorted names and the fewest escapes.
func (r *Record) canonical() []byte {
	e := recordEncoder{out: make([]byte, 0, usualRecord)}
	e.open()
	e.text("approval", r.Approval)
	e.text("args", r.ArgsDigest)
	e.text("by", r.By)
	e.number("bytes", r.Bytes)
	e.text("callId", r.CallID)
	e.text("connection", string(r.Connection))
	e.number("durationNs", int64(r.Duration))
	e.text("error", r.Error)
	e.text("execution", string(r.Execution))
	e.gates(r.Gates)
	e.text("id", r.ID)
	e.text("key", string(r.Key))
	e.text("op", r.Op)
	e.always("outcome", string(r.Outcome))
	e.always("phase", string(r.Phase))
	e.text("prev", r.Prev)
	e.name("sent")
	e.out = strconv.AppendBool(e.out, r.Sent)
	e.number("seq", r.Seq)
	e.text("source", string(r.Source))
	e.text("step", r.Step)
	e.text("thread", string(r.Thread))
	e.always("time", r.Time.Format(time.RFC3339Nano))
	e.close()
	return e.out
}

// recordEncoder writes the members of objects.
type recordEncoder struct {
	out   []byte
	began bool // the object has a member already
}

func (e *recordEncoder) open() { e.out, e.began = append(e.out, '{'), false }

func (e *recordEncoder) close() { e.out, e.began = append(e.out, '}'), true }

// name begins a member, whose name needs no escapes.
func (e *recordEncoder) name(name string) {
	if e.began {
		e.out = append(e.out, ',')
	}
	e.began = true
	e.out = append(append(append(e.out, '"'), name...), '"', ':')
}

// text leaves an empty value out.
func (e *recordEncoder) text(name, value string) {
	if value != "" {
		e.always(name, value)
	}
}

func (e *recordEncoder) always(name, value string) {
	e.name(name)
	// That fails for invalid UTF-8 only, which a clipped record does not have.
	e.out, _ = jsontext.AppendQuote(e.out, value)
}

// number leaves 0 out.
func (e *recordEncoder) number(name string, value int64) {
	if value != 0 {
		e.name(name)
		e.out = strconv.AppendInt(e.out, value, 10)
	}
}

func (e *recordEncoder) gates(gates []GateOutcome) {
	if len(gates) == 0 {
		return
	}
	e.name("gates")
	e.out = append(e.out, '[')
	for i, g := range gates {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.open()
		e.always("gate", g.Gate)
		e.text("reason", g.Reason)
		e.always("verdict", string(g.Verdict))
		e.close()
	}
	e.out = append(e.out, ']')
}
