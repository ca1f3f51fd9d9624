package refs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// domain keeps tags of refs apart from anything else a key might ever sign.
const domain = "bridle ref v1"

// signer makes tags with one key. No field holds the key, so that printing a
// signer shows nothing of it.
type signer struct {
	id      string
	taggers sync.Pool // of *tagger
}

// tagger is a keyed hash with its memory, for one tag at a time.
type tagger struct {
	mac     hash.Hash
	message []byte
	sum     []byte
}

// usualMessage is longer than the message of most refs.
const usualMessage = 512

func newSigner(id string, secret []byte) *signer {
	s := &signer{id: id}
	s.taggers.New = func() any {
		return &tagger{mac: hmac.New(sha256.New, secret),
			message: make([]byte, 0, usualMessage), sum: make([]byte, 0, sha256.Size)}
	}
	return s
}

// tag computes the tag of a ref whose key is this one.
func (s *signer) tag(r *Ref) tag {
	t := s.taggers.Get().(*tagger)
	defer s.taggers.Put(t)
	t.mac.Reset()
	t.message = r.appendMessage(t.message[:0])
	t.mac.Write(t.message)
	t.sum = t.mac.Sum(t.sum[:0])
	return tag(t.sum)
}

// verify reports whether the tag of a ref is this key's.
func (s *signer) verify(r *Ref) bool {
	want := s.tag(r)
	return hmac.Equal(want[:], r.tag[:])
}

// appendMessage appends what a tag is made of. Each text goes after its length
// and the rest has a fixed one, so the message determines every field.
func (r *Ref) appendMessage(b []byte) []byte {
	for _, text := range [...]string{domain, r.key, r.kind, r.id, r.connection, r.thread, r.lease, r.instance, r.mimeType} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(r.size))
	if r.sensitive {
		return append(b, 1)
	}
	return append(b, 0)
}
