package refs

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"github.com/bridle-dev/bridle/fault"
)

// BlobKind is the kind of refs that point at a blob.
const BlobKind = "blob"

// Ref points at something a connection returned. The zero Ref points at
// nothing, and is null in JSON.
//
// A Ref is a value that never changes: copy and share it. It cannot be compared
// with ==, since that would compare tags byte by byte; compare what ID returns,
// or use Equal.
type Ref struct {
	_ [0]func() // not comparable

	id         string
	kind       string
	connection string
	thread     string
	lease      string
	instance   string // of volatile kinds only
	mimeType   string // of blobs, like the next two
	size       int64
	sensitive  bool
	key        string // id of the key; "" is not sealed
	tag        tag
}

// tag is what a key makes of the fields of a ref.
type tag [sha256.Size]byte

// New returns an unsealed ref to what a server calls id. Kind says what it is,
// as in the x-ref of a schema: "element", "chat.thread". What New is given is
// checked when the ref is sealed.
func New(kind, id string) Ref { return Ref{kind: kind, id: id} }

// ID returns the server's own name for the thing: what is sent back, and what
// is compared to see whether two refs point at the same thing of a connection.
func (r Ref) ID() string { return r.id }

// Kind returns what kind of thing it is.
func (r Ref) Kind() string { return r.kind }

// Connection returns the name of the connection that issued the ref, "" unless
// it is sealed. It means something only once [Keys.Open] has accepted the ref.
func (r Ref) Connection() string { return r.connection }

// Thread returns the thread that the ref was issued to, "" unless it is sealed.
// It means something only once [Keys.Open] has accepted the ref.
func (r Ref) Thread() string { return r.thread }

// MIMEType returns the type of a blob, "" for other kinds.
func (r Ref) MIMEType() string { return r.mimeType }

// Size returns the length of a blob in bytes, 0 for other kinds.
func (r Ref) Size() int64 { return r.size }

// Sensitive reports whether the ref points at a blob that no model may see.
func (r Ref) Sensitive() bool { return r.sensitive }

// Sealed reports whether the ref has a seal. Whether the seal is genuine only
// [Keys.Open] knows.
func (r Ref) Sealed() bool { return r.key != "" }

// IsZero reports whether the ref points at nothing.
func (r Ref) IsZero() bool { return r.same(Ref{}) && !r.Sealed() }

// Equal reports whether two refs are the same in everything, seal included. It
// says nothing about whether the seal is genuine.
func (r Ref) Equal(other Ref) bool {
	return r.same(other) && r.key == other.key && hmac.Equal(r.tag[:], other.tag[:])
}

// same compares all but the seal.
func (r Ref) same(other Ref) bool {
	return r.id == other.id && r.kind == other.kind && r.connection == other.connection &&
		r.thread == other.thread && r.lease == other.lease && r.instance == other.instance &&
		r.mimeType == other.mimeType && r.size == other.size && r.sensitive == other.sensitive
}

// String describes the ref for logs and messages, in bounded length and without
// its seal. It cannot be read back.
func (r Ref) String() string {
	switch {
	case r.IsZero():
		return "no ref"
	case !r.Sealed():
		return fmt.Sprintf("%s %s", fault.Quote(r.kind), fault.Quote(r.id))
	}
	return fmt.Sprintf("%s %s of %s", fault.Quote(r.kind), fault.Quote(r.id), fault.Quote(r.connection))
}
