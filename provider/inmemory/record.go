package inmemory

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"

	"github.com/bridle-dev/bridle/provider"
)

// Recorded is a call that reached a thing.
type Recorded struct {
	Op        string
	Args      json.RawMessage // as they arrived, byte for byte
	Key       provider.Key
	Execution provider.ExecutionID
	Approval  string
	Trace     map[string]string
	Instance  string    // the thing's, when the call arrived
	Time      time.Time // when it arrived
	Ended     bool      // Call returned
	Err       error     // what Call returned, nil before it ended
	// Repeated says that the operation did not run: it is once, and the key had
	// an outcome already.
	Repeated bool
}

// entry is a Recorded in the journal, together with what guards it.
type entry struct {
	family *family
	line   *line    // of the thing it reached
	rec    Recorded // guarded by family.mu
}

// Calls returns the calls that reached this thing, or any that it provisioned,
// in order of arrival. Requests that were lost on their way, by a Fault or
// because the connection had ended, never arrived. The result is the caller's.
func (p *Provider) Calls() []Recorded {
	p.family.mu.Lock()
	defer p.family.mu.Unlock()
	var out []Recorded
	for _, e := range p.family.calls {
		if e.line.within(p.line) {
			rec := e.rec
			rec.Args, rec.Trace = bytes.Clone(rec.Args), maps.Clone(rec.Trace)
			out = append(out, rec)
		}
	}
	return out
}

func (p *Provider) record(req *provider.CallRequest) *entry {
	own := cloneRequest(req)
	e := &entry{family: p.family, line: p.line, rec: Recorded{
		Op: own.Op, Args: own.Args, Key: own.Key, Execution: own.Execution,
		Approval: own.Approval, Trace: own.Trace, Instance: p.Identity().Instance, Time: time.Now(),
	}}
	p.family.mu.Lock()
	defer p.family.mu.Unlock()
	p.family.calls = append(p.family.calls, e)
	return e
}

func (e *entry) end(err error) {
	e.family.mu.Lock()
	defer e.family.mu.Unlock()
	e.rec.Ended, e.rec.Err = true, err
}

func (e *entry) repeat() {
	e.family.mu.Lock()
	defer e.family.mu.Unlock()
	e.rec.Repeated = true
}
