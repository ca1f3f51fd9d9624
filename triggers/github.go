package triggers

import (
	"fmt"
	"strings"
)

// maxEventName bounds the name of an event in a header; GitHub's have at most 40
// bytes.
const maxEventName = 128

// GitHub verifies webhooks of GitHub: X-Hub-Signature-256 over the body. Several
// secrets are there for rotation. The webhook must be of the content type
// application/json.
//
// The event's type is X-GitHub-Event, as in "push"; what happened to it, as in
// "opened", is in the payload, which is the whole body. Its ID is SHA-256 of
// body and type. GitHub signs the body alone: X-GitHub-Delivery is not in it,
// so that anybody who has seen a delivery could send it again under another
// id. A delivery that is sent again for real, by hand or by GitHub, has the same
// body and is known. There is no signed time either: how long a repetition is
// recognised depends on how long ids are remembered.
func GitHub(secrets ...string) Verifier { return &github{hide(secrets)} }

type github struct{ hidden }

// Verify checks the signature over the raw body.
func (v *github) Verify(r *WebhookRequest) (*Verified, error) {
	digits, found := strings.CutPrefix(single(r.Header, "X-Hub-Signature-256"), "sha256=")
	tag, ok := hexTag(digits)
	if !found || !ok || !v.signed([][]byte{tag}, r.Body) {
		return nil, RefusedSignature
	}
	event := single(r.Header, "X-Github-Event")
	if event == "" || len(event) > maxEventName {
		return nil, fmt.Errorf("the header X-GitHub-Event names no event: %w", RefusedFormat)
	}
	if _, err := members(r.Body); err != nil {
		return nil, err
	}
	return &Verified{ID: digest(event, r.Body), Type: event, Payload: r.Body}, nil
}
