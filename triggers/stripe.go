package triggers

import (
	"fmt"
	"strings"

	"github.com/bridle-dev/bridle/provider"
)

// Stripe verifies webhooks of Stripe: Stripe-Signature, scheme v1, over its time
// and the body, at most five minutes apart from now. Several secrets, each with
// its whsec_, are there for rotation, as are several signatures in the header.
//
// The event's type, ID and time are the members "type", "id" and "created" of
// the body; the payload is the whole body, with the changed object inside
// "data", and with "livemode" and "account", which triggers may want to look at.
func Stripe(secrets ...string) Verifier { return &stripe{hide(secrets)} }

type stripe struct{ hidden }

// Verify checks signatures and time, and reads what the body says it is.
func (v *stripe) Verify(r *WebhookRequest) (*Verified, error) {
	stamp, tags := stripeHeader(single(r.Header, "Stripe-Signature"))
	at, ok := unixTime(stamp)
	if !ok || !v.signed(tags, []byte(stamp+"."), r.Body) {
		return nil, RefusedSignature
	}
	if !fresh(at, r.Now) {
		return nil, RefusedTime
	}
	m, err := members(r.Body, "id", "type", "created")
	if err != nil {
		return nil, err
	}
	id, event := text(m[0]), text(m[1])
	if id == "" || event == "" {
		return nil, fmt.Errorf("the body has no id or no type: %w", RefusedFormat)
	}
	return &Verified{ID: provider.EventID(id), Type: event, Payload: r.Body, Time: instant(m[2])}, nil
}

// stripeHeader reads "t=1700000000,v1=…,v1=…". A time given twice is none;
// signatures of other schemes are skipped.
func stripeHeader(header string) (stamp string, tags [][]byte) {
	if len(header) > maxSignatureAll {
		return "", nil
	}
	times := 0
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			stamp = value
			times++
		case "v1":
			if tag, ok := hexTag(value); ok && len(tags) < maxSignatures {
				tags = append(tags, tag)
			}
		}
	}
	if times != 1 {
		return "", nil
	}
	return stamp, tags
}
