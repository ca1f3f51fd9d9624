package triggers

import (
	"fmt"
	"strings"

	"github.com/bridle-dev/bridle/provider"
)

// Slack verifies requests of Slack's Events API: X-Slack-Signature, version v0,
// over X-Slack-Request-Timestamp and the body, at most five minutes old. Several
// signing secrets are there for rotation.
//
// The event's type is that of the event inside, as in "app_mention", its ID
// event_id, its time event_time; the payload is the whole body, with the event
// as its member "event". A body without an event inside has its own "type", and
// the hash of the body as its ID. The challenge that Slack sends to see whether
// the address is willing is answered once its signature is verified. Retries
// have the same event_id; the headers that count them are not looked at.
// Commands and interactions come as forms, which are refused as no JSON.
func Slack(secrets ...string) Verifier { return &slack{hide(secrets)} }

type slack struct{ hidden }

// Verify checks signature and time, and reads the event or the challenge.
func (v *slack) Verify(r *WebhookRequest) (*Verified, error) {
	stamp := single(r.Header, "X-Slack-Request-Timestamp")
	at, plain := unixTime(stamp)
	digits, found := strings.CutPrefix(single(r.Header, "X-Slack-Signature"), "v0=")
	tag, ok := hexTag(digits)
	if !plain || !found || !ok || !v.signed([][]byte{tag}, []byte("v0:"+stamp+":"), r.Body) {
		return nil, RefusedSignature
	}
	if !fresh(at, r.Now) {
		return nil, RefusedTime
	}
	return slackEvent(r.Body)
}

func slackEvent(body []byte) (*Verified, error) {
	m, err := members(body, "type", "challenge", "event", "event_id", "event_time")
	if err != nil {
		return nil, err
	}
	kind := text(m[0])
	if kind == "" {
		return nil, fmt.Errorf("the body has no type: %w", RefusedFormat)
	}
	if kind == "url_verification" {
		return &Verified{Reply: []byte(text(m[1]))}, nil
	}
	if m[2] == nil {
		return &Verified{ID: digest(kind, body), Type: kind, Payload: body}, nil
	}
	inner, err := members(m[2], "type")
	if err != nil {
		return nil, err
	}
	id, event := text(m[3]), text(inner[0])
	if id == "" || event == "" {
		return nil, fmt.Errorf("the event has no id or no type: %w", RefusedFormat)
	}
	return &Verified{ID: provider.EventID(id), Type: event, Payload: body, Time: instant(m[4])}, nil
}
