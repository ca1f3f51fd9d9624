package triggers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"

	"github.com/bridle-dev/bridle/fault"
)

// maxSignatures is how many signatures of one delivery are looked at: rotation
// needs two or three, and more are somebody's attempt to make work.
const maxSignatures = 16

// hidden holds secrets where printing a verifier does not show them.
type hidden func() []string

func hide(secrets []string) hidden {
	own := slices.Clone(secrets)
	return func() []string { return own }
}

// Secrets makes everything that embeds hidden a SecretHolder.
func (h hidden) Secrets() []string { return slices.Clone(h()) }

// Check refuses what would let anybody sign.
func (h hidden) Check() error {
	if len(h()) == 0 {
		return invalid("the verifier has no secret").WithHint("Pass the secret that the sender shows for this webhook.")
	}
	for i, s := range h() {
		if s == "" {
			return emptySecret(i)
		}
	}
	return nil
}

func emptySecret(i int) *fault.Error {
	return invalid("secret %d of the verifier is empty, so that anybody could sign", i+1).
		WithHint("Pass the secret that the sender shows for this webhook; is the variable set that it comes from?")
}

// signed reports whether one of the tags is that of the parts, one after the
// other, under one of the secrets.
func (h hidden) signed(tags [][]byte, parts ...[]byte) bool {
	ok := false
	for _, secret := range h() {
		if secret == "" {
			continue
		}
		mac := hmac.New(sha256.New, []byte(secret))
		for _, p := range parts {
			mac.Write(p)
		}
		want := mac.Sum(nil)
		for _, tag := range tags {
			ok = hmac.Equal(want, tag) || ok
		}
	}
	return ok
}

// hexTag reads a tag of SHA-256 in lower or upper case.
func hexTag(text string) ([]byte, bool) {
	if len(text) != hex.EncodedLen(sha256.Size) {
		return nil, false
	}
	tag, err := hex.DecodeString(text)
	return tag, err == nil
}

// single returns the value of a header that was sent once, or "". What is sent
// twice means different things to different readers.
func single(h http.Header, name string) string {
	if values := h[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}
