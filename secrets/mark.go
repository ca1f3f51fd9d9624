package secrets

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
)

// markKey returns the key of this process for the marks of references.
//
//allow:var made once at random when first used, the same for all harnesses so that a step may move between them
var markKey = sync.OnceValue(func() []byte {
	key := make([]byte, sha256.Size)
	// It never fails: the program ends if the system has no randomness.
	_, _ = rand.Read(key)
	return key
})

// markOf is the tag that makes the JSON of a reference genuine: HMAC-SHA256
// (RFC 2104) of its name.
func markOf(r Ref) string {
	mac := hmac.New(sha256.New, markKey())
	mac.Write([]byte("bridle secret reference\x00" + string(r)))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func genuine(r Ref, mark string) bool {
	return r != "" && hmac.Equal([]byte(markOf(r)), []byte(mark))
}
