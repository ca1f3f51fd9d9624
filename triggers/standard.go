package triggers

import (
	"crypto/hmac"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bridle-dev/bridle/provider"
)

// secretPrefix tells symmetric secrets from other keys.
const secretPrefix = "whsec_"

// Bounds of Standard Webhooks headers.
const (
	maxWebhookID    = 256  // bytes; those in use have some 30
	maxSignatureAll = 4096 // bytes of the header with all signatures
)

// StandardWebhooks verifies deliveries of the Standard Webhooks specification
// 1.0.0 with symmetric secrets ("v1"): base64, with or without "whsec_" before
// it. Several secrets are there for rotation: a delivery signed with any of them
// is genuine. Headers are webhook-id, webhook-timestamp and webhook-signature,
// or the same beginning with svix.
//
// The event's ID is webhook-id, its type the member "type" of the body. If the
// body is an object that also has the member "data", that is the payload and
// the rest is an envelope; else the payload is the whole body. The event's time
// is the member "timestamp" if it is one of RFC 3339, else the signed time of
// the attempt.
//
// What arrived is signed by the specification's own library and compared with
// the header. Refused before are headers sent twice, timestamps in any other
// spelling than plain digits, and an id with a full stop (which would let
// another split of the signed text pass; the specification warns of it). Secrets that
// are empty or no base64 are found by the source's Check.
func StandardWebhooks(secrets ...string) Verifier {
	v := &standard{hidden: hide(secrets)}
	var hooks []*standardwebhooks.Webhook
	for i, s := range secrets {
		hook, err := standardHook(i, s)
		if err != nil {
			v.problem = first(v.problem, err)
			continue
		}
		hooks = append(hooks, hook)
	}
	v.hooks = func() []*standardwebhooks.Webhook { return hooks }
	return v
}

type standard struct {
	hidden
	hooks   func() []*standardwebhooks.Webhook // hidden as the secrets are
	problem error
}

func standardHook(i int, secret string) (*standardwebhooks.Webhook, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	switch {
	case err != nil:
		return nil, invalid("secret %d of the verifier is not base64", i+1).
			WithHint("Pass the secret as the sender shows it: whsec_ and base64. A key that is not encoded has to be; asymmetric keys (whpk_) are not supported.")
	case len(key) == 0:
		return nil, emptySecret(i)
	}
	return standardwebhooks.NewWebhookRaw(key)
}

// Check reports secrets that are empty or no base64, CONNECTION_INVALID.
func (v *standard) Check() error {
	if err := v.hidden.Check(); err != nil {
		return err
	}
	return v.problem
}

// Secrets are the configured ones, and the same without their prefix.
func (v *standard) Secrets() []string {
	all := v.hidden.Secrets()
	for _, s := range v.hidden.Secrets() {
		if bare, ok := strings.CutPrefix(s, secretPrefix); ok {
			all = append(all, bare)
		}
	}
	return all
}

// Verify checks headers, signature and time, and reads the envelope.
func (v *standard) Verify(r *WebhookRequest) (*Verified, error) {
	family := standardFamily(r.Header)
	id := single(r.Header, family+"Id")
	if !plainID(id) {
		return nil, fmt.Errorf("the id is missing, too long, or has a character that ids must not have: %w", RefusedSignature)
	}
	at, ok := unixTime(single(r.Header, family+"Timestamp"))
	if !ok {
		return nil, fmt.Errorf("the timestamp is not written in plain digits: %w", RefusedSignature)
	}
	if !v.signedBy(id, at, r.Body, single(r.Header, family+"Signature")) {
		return nil, RefusedSignature
	}
	if !fresh(at, r.Now) {
		return nil, RefusedTime
	}
	return readEnvelope(provider.EventID(id), at, r.Body)
}

// signedBy has the library sign what arrived, and looks for that among the
// signatures of the header. Its own Verify would read the headers, leniently,
// and knows no clock but the system's.
func (v *standard) signedBy(id string, at time.Time, body []byte, header string) bool {
	if len(header) > maxSignatureAll {
		return false
	}
	for _, hook := range v.hooks() {
		want, err := hook.Sign(id, at, body)
		if err == nil && listed(header, []byte(want)) {
			return true
		}
	}
	return false
}

// listed looks for a signature among the first of a list.
func listed(header string, want []byte) bool {
	looked := 0
	for one := range strings.SplitSeq(header, " ") {
		if len(one) != len(want) {
			continue // of another kind
		}
		if looked++; looked > maxSignatures {
			return false
		}
		if hmac.Equal(want, []byte(one)) {
			return true
		}
	}
	return false
}

// readEnvelope reads type, time and payload from a body.
func readEnvelope(id provider.EventID, sent time.Time, body []byte) (*Verified, error) {
	m, err := members(body, "type", "timestamp", "data")
	if err != nil {
		return nil, err
	}
	v := &Verified{ID: id, Type: text(m[0]), Payload: body, Time: sent}
	if m[2] != nil && v.Type != "" {
		v.Payload = m[2]
	}
	if at := instant(m[1]); !at.IsZero() {
		v.Time = at
	}
	return v, nil
}

// standardFamily is how the three headers begin.
func standardFamily(h http.Header) string {
	if h["Webhook-Id"] != nil || h["Webhook-Timestamp"] != nil || h["Webhook-Signature"] != nil {
		return "Webhook-"
	}
	return "Svix-"
}

// plainID accepts printable ASCII without spaces and full stops.
func plainID(id string) bool {
	if id == "" || len(id) > maxWebhookID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' || id[i] == '.' {
			return false
		}
	}
	return true
}
