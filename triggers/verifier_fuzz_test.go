package triggers_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/triggers"
)

// FuzzHeaders gives all verifiers headers that nobody would send. None panics;
// none takes for signed what a simple second reading finds no signature in; and
// what is signed and plain is taken.
func FuzzHeaders(f *testing.F) {
	now := unix(signedAt)
	for _, stamp := range []string{now, "", "abc", "NaN", "1e309", "-1", "+" + now, "0" + now, strings.Repeat("9", 30), " " + now} {
		f.Add("msg_1", stamp, "", `{"type":"a","data":{}}`)
	}
	for name, s := range schemes() {
		for _, values := range s.sign(s.secrets[0], now, s.body) {
			f.Add("msg_1", now, values[0], s.body)
		}
		f.Add("msg."+name, now, "v1,v1,v1 t=1,t=2,v1=", s.body)
	}
	f.Fuzz(func(t *testing.T, id, stamp, signature, body string) {
		for name, s := range schemes() {
			h := strange(id, stamp, signature)
			_, err := verified(s.verifier(s.secrets[0]), h, body)
			if refused := errors.Is(err, triggers.RefusedSignature); !refused && !signedSomehow(name, s.secrets[0], id, stamp, signature, body) {
				t.Errorf("%s takes for signed: %q, %v", name, h, err)
			}
			if name == "standard" && !simpleID(id) || name != "github" && !simpleTime(stamp) {
				continue
			}
			h = s.sign(s.secrets[0], stamp, body)
			if _, err := verified(s.verifier(s.secrets[0]), h, body); errors.Is(err, triggers.RefusedSignature) {
				t.Errorf("%s does not take %q, although it is signed", name, h)
			}
		}
	})
}

func strange(id, stamp, signature string) http.Header {
	return http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature},
		"X-Hub-Signature-256": {signature}, "X-Github-Event": {id}, "X-Slack-Request-Timestamp": {stamp},
		"X-Slack-Signature": {signature}, "Stripe-Signature": {signature}}
}

// signedSomehow looks for the right tag anywhere in the header.
func signedSomehow(name, secret, id, stamp, signature, body string) bool {
	switch name {
	case "standard":
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		return simpleID(id) && simpleTime(stamp) &&
			strings.Contains(signature, base64.StdEncoding.EncodeToString(sign(key, id, ".", stamp, ".", body)))
	case "github":
		return hasHex(signature, sign([]byte(secret), body))
	case "slack":
		return simpleTime(stamp) && hasHex(signature, sign([]byte(secret), "v0:", stamp, ":", body))
	}
	return slices.ContainsFunc(strings.Split(signature, ","), func(part string) bool {
		stamp, found := strings.CutPrefix(strings.TrimSpace(part), "t=")
		return found && simpleTime(stamp) && hasHex(signature, sign([]byte(secret), stamp, ".", body))
	})
}

func hasHex(text string, sum []byte) bool {
	return strings.Contains(strings.ToLower(text), hex.EncodeToString(sum))
}

func simpleTime(stamp string) bool {
	n, err := strconv.ParseUint(stamp, 10, 64)
	return err == nil && len(stamp) <= 12 && strconv.FormatUint(n, 10) == stamp
}

func simpleID(id string) bool {
	return id != "" && len(id) <= 256 && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == '.' })
}
