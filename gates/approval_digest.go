package gates

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// digester hashes fields so that no two lists of fields have the same bytes:
// each is preceded by its length.
type digester struct{ hash hash.Hash }

func newDigester(domain string) digester {
	d := digester{sha256.New()}
	d.add(domain)
	return d
}

func (d digester) add(fields ...string) {
	var size [8]byte
	for _, f := range fields {
		binary.BigEndian.PutUint64(size[:], uint64(len(f)))
		d.hash.Write(size[:])
		d.hash.Write([]byte(f))
	}
}

func (d digester) sum() string { return hex.EncodeToString(d.hash.Sum(nil)) }

// place are the bound fields that say where and under which definition a call
// is made; the execution is apart.
func (a *Approval) place() []string {
	c := &a.Call
	return []string{string(c.Thread), string(c.Connection), c.Identity.Surface, c.Identity.Instance,
		c.Identity.Epoch, a.Lease, c.Op, a.Definition}
}

// details are the other bound fields.
func (a *Approval) details() []string {
	list := []string{string(a.Call.Execution), string(a.Call.Args), string(a.Call.Key)}
	if q := a.Question; q != nil {
		list = append(list, "question", q.Op, q.Message, string(q.Schema), q.URL)
	} else {
		list = append(list, "call")
	}
	return append(list, a.RefIDs...)
}

// digest covers all that is bound. Times are not: the same call asked for again
// after a restart finds its request, whose own expiry counts.
func (a *Approval) digest() string {
	d := newDigester("bridle approval 1")
	d.add(a.place()...)
	d.add(a.details()...)
	return d.sum()
}

// scopeKey is where permission for the execution is kept. Keys of one execution
// have a prefix of their own, [runPrefix].
func (a *Approval) scopeKey() string {
	d := newDigester("bridle approval scope 1")
	d.add(a.place()...)
	return runPrefix(string(a.Call.Execution)) + d.sum() + "/"
}

func runPrefix(execution string) string {
	d := newDigester("bridle execution 1")
	d.add(execution)
	return d.sum() + "/"
}
