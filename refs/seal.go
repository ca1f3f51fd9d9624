package refs

import (
	"crypto/sha256"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
)

// Scope is where a ref is issued, and where it is used. Sealing binds a ref to
// its scope, and opening compares.
type Scope struct {
	Connection string // the connection's name; in Open, "" is any
	Thread     string // children count as their parent's thread
	Lease      string // of a leased connection, "" otherwise
	Instance   string // which incarnation of the connection; counts for volatile kinds
}

// Seal binds a ref to a scope under the current key. Volatile says that the
// thing goes away with the connection's instance, as an element of a page does.
//
// What cannot be sealed is ref_invalid: a ref without id or kind, one that is
// sealed already, text that is not UTF-8, more than [MaxSize] bytes, a scope
// without connection or thread, and without an instance if volatile.
func (k *Keys) Seal(r Ref, s Scope, volatile bool) (Ref, error) {
	signer := k.ring.Load().current
	r.connection, r.thread, r.lease = s.Connection, s.Thread, s.Lease
	if volatile {
		r.instance = s.Instance
	}
	if problem := unfit(&r, signer.id, volatile); problem != "" {
		return Ref{}, fault.New(fault.RefInvalid, "seal %s %s: %s", fault.Quote(r.kind), fault.Quote(r.id), problem)
	}
	r.key = signer.id
	r.tag = signer.tag(&r)
	return r, nil
}

// unfit says why a ref with its scope cannot be sealed.
func unfit(r *Ref, key string, volatile bool) string {
	switch {
	case r.Sealed():
		return "it is sealed already, and sealing again would bless what nobody opened"
	case r.id == "" || r.kind == "":
		return "id or kind is empty"
	case r.connection == "" || r.thread == "":
		return "it has no connection or no thread to be bound to"
	case volatile && r.instance == "":
		return "its kind is volatile, and the connection's instance is unknown"
	case r.kind != BlobKind && (r.mimeType != "" || r.size != 0 || r.sensitive) || r.size < 0:
		return "it has facts that only a blob has"
	}
	size := len(key) + tagText().EncodedLen(sha256.Size)
	for _, text := range [...]string{r.id, r.kind, r.connection, r.thread, r.lease, r.instance, r.mimeType} {
		size += len(text)
		if !utf8.ValidString(text) {
			return "it is not valid UTF-8"
		}
	}
	if size > MaxSize {
		return "it is too long"
	}
	return ""
}

// Open checks that a ref may be used in a scope. The package comment lists the
// reasons for which it may not; other errors are those of the store.
//
// A Scope without Connection leaves that check to the caller, who finds the
// other fields of the scope by the ref's own connection.
//
// Open reads nothing but memory, except when it meets the id of a key that it
// does not know: then it reads the keys from the store once, since another
// process may have made it.
func (k *Keys) Open(r Ref, s Scope) error {
	if !r.Sealed() {
		return refuse(r, fault.RefForged, "it has no seal")
	}
	signer, err := k.find(r.key)
	if err != nil {
		return err
	}
	switch {
	case signer == nil:
		return refuse(r, fault.RefForged, "its key is unknown")
	case !signer.verify(&r):
		return refuse(r, fault.RefForged, "its seal does not fit")
	case r.thread != s.Thread:
		return refuse(r, fault.RefForeign, "it belongs to another thread")
	case s.Connection != "" && r.connection != s.Connection:
		return refuse(r, fault.RefUnknown, "it was issued by another connection")
	case r.lease != s.Lease:
		return refuse(r, fault.RefLease, "it was issued under another lease")
	case r.instance != "" && r.instance != s.Instance:
		return refuse(r, fault.RefReplaced, "what it points at went away with its instance")
	}
	return nil
}

// refuse makes the error for a ref that is not good here. Nothing that a forger
// wrote is repeated without bounds.
func refuse(r Ref, reason fault.Code, why string) *fault.Error {
	err := refusedRef(reason, "%s: %s", r, why)
	if reason == fault.RefForged {
		return err.WithHint("Pass a ref exactly as it was returned, or its alias.")
	}
	return err.WithHint("Look again and use a ref from the new result.")
}
