package triggers

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/bridle-dev/bridle/provider"
)

// Verifier proves that a delivery comes from who it says, and reads what it
// tells. [StandardWebhooks], [GitHub], [Slack] and [Stripe] are verifiers; other
// schemes are written by implementing it.
//
// Whoever writes one compares tags with hmac.Equal, signs the bytes of Body as
// they are and never what was decoded from them, refuses what is older or newer
// than five minutes where the scheme signs a time, and takes ID from what is
// signed: a header that is not can be changed by anyone who has seen one
// delivery, who could then have it acted upon again. Verify may be called
// concurrently, waits for nobody, and leaves its argument as it is.
//
// Two abilities are optional, and found by asking whether a Verifier has them
// too: [provider.Checker], for mistakes such as an empty secret, and
// [SecretHolder].
type Verifier interface {
	// Verify returns what the delivery tells. An error that is or wraps a
	// [Refusal] says what is wrong with it; any other error is
	// [RefusedSignature]. Errors are logged and must not hold secrets or what
	// was sent; the sender is told the kind of refusal at most. A panic is
	// contained.
	Verify(*WebhookRequest) (*Verified, error)
}

// SecretHolder is an optional ability of a [Verifier]: it tells its secrets, so
// that they are replaced wherever they show up.
type SecretHolder interface {
	// Secrets returns the shared secrets as they are configured.
	Secrets() []string
}

// WebhookRequest is a delivery as it arrived.
type WebhookRequest struct {
	Header http.Header // names in canonical form, as net/http has them
	Body   []byte      // the raw bytes
	Now    time.Time   // when it arrived
}

// Verified is what a delivery tells once it is known to be genuine.
type Verified struct {
	// ID is what repetitions are recognised by. Required, unless Reply is set.
	ID provider.EventID
	// Type is the name of the event. "" means that the body names none: a route
	// with one declared event takes it as that one.
	Type string
	// Payload is what triggers and waits get, JSON. It may share memory with the
	// body.
	Payload json.RawMessage
	// Time is when it happened; the zero value is when it arrived.
	Time time.Time
	// Reply, if not nil, is text that the sender wants back; there is no event
	// then, and the other fields are ignored. Schemes ask for it to see whether
	// an address is willing.
	Reply []byte
}

// Refusal is why a delivery was not accepted. It is itself an error, which a
// [Verifier] may return or wrap. Refusals are append-only.
type Refusal string

// The refusals, with the status that the sender gets.
const (
	// RefusedRoute: no route has this path. 404.
	RefusedRoute Refusal = "route"
	// RefusedMethod: it is not a POST. 405.
	RefusedMethod Refusal = "method"
	// RefusedSize: the body is longer than [WebhookOptions.MaxBody]. 413.
	RefusedSize Refusal = "size"
	// RefusedBody: the body could not be read to its end. 400.
	RefusedBody Refusal = "body"
	// RefusedSignature: the signature is missing, malformed, or of another secret
	// or other bytes. 401, and nothing about which.
	RefusedSignature Refusal = "signature"
	// RefusedTime: it is signed, but too long ago or too far in the future. 401,
	// with the same text as the one before.
	RefusedTime Refusal = "time"
	// RefusedFormat: it is signed, but no JSON, or it lacks an id or a type. 400.
	RefusedFormat Refusal = "format"
	// RefusedPayload: it is signed, but does not fit the event's schema. 422.
	RefusedPayload Refusal = "payload"
	// RefusedBusy: too many deliveries are being dealt with. 503 and Retry-After.
	RefusedBusy Refusal = "busy"
	// RefusedStore: it was not stored, for want of someone who stores or because
	// that took too long. 503 and Retry-After.
	RefusedStore Refusal = "store"
	// RefusedPanic: code that was handed in panicked. 500.
	RefusedPanic Refusal = "panic"
)

// Error returns "refused: " and the refusal's own spelling. Formats such as %v use
// it too; string(r) is the spelling alone.
func (r Refusal) Error() string { return "refused: " + string(r) }

// status is what the sender is told.
func (r Refusal) status() int {
	switch r {
	case RefusedRoute:
		return http.StatusNotFound
	case RefusedMethod:
		return http.StatusMethodNotAllowed
	case RefusedSize:
		return http.StatusRequestEntityTooLarge
	case RefusedSignature, RefusedTime:
		return http.StatusUnauthorized
	case RefusedPayload:
		return http.StatusUnprocessableEntity
	case RefusedBusy, RefusedStore:
		return http.StatusServiceUnavailable
	case RefusedPanic:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}
