package triggers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

const (
	whsec  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	whsec2 = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	plain  = "8f742231b10e8888abcd99yyyzzz85a5"
)

// signedAt is what the tests take for now.
var signedAt = time.Unix(1_790_000_000, 0)

// sign is HMAC-SHA256 of the parts, one after the other.
func sign(key []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		mac.Write([]byte(p))
	}
	return mac.Sum(nil)
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// standardHeaders signs as Standard Webhooks does, with a timestamp as it is
// spelled.
func standardHeaders(secret, id, stamp, body string) http.Header {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	tag := base64.StdEncoding.EncodeToString(sign(key, id, ".", stamp, ".", body))
	return headers("webhook-id", id, "webhook-timestamp", stamp, "webhook-signature", "v1,"+tag)
}

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

func githubHeaders(secret, event, body string) http.Header {
	return headers("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sign([]byte(secret), body)), "X-GitHub-Event", event)
}

func slackHeaders(secret, stamp, body string) http.Header {
	return headers("X-Slack-Request-Timestamp", stamp,
		"X-Slack-Signature", "v0="+hex.EncodeToString(sign([]byte(secret), "v0:", stamp, ":", body)))
}

func stripeHeaders(secret, stamp, body string) http.Header {
	return headers("Stripe-Signature", "t="+stamp+",v1="+hex.EncodeToString(sign([]byte(secret), stamp, ".", body)))
}

func verified(v triggers.Verifier, h http.Header, body string) (*triggers.Verified, error) {
	return v.Verify(&triggers.WebhookRequest{Header: h, Body: []byte(body), Now: signedAt})
}

func TestVerifiersReadWhatIsSigned(t *testing.T) {
	now := unix(signedAt)
	const (
		enveloped = `{"type":"deploy.failed","timestamp":"2026-09-21T14:13:20Z","data":{"service":"checkout"}}`
		squashed  = `{ "type" :"deploy.failed",  "service":"checkout"}`
		push      = `{"ref":"refs/heads/main"}`
		mention   = `{"type":"event_callback","event":{"type":"app_mention","text":"hi"},"event_id":"Ev01","event_time":1789999990}`
		limited   = `{"type":"app_rate_limited","team_id":"T1"}`
		paid      = `{"id":"evt_1","object":"event","type":"invoice.paid","created":1789999990,"livemode":true,"data":{"object":{}}}`
	)
	hash := func(text string) provider.EventID {
		sum := sha256.Sum256([]byte(text))
		return provider.EventID(hex.EncodeToString(sum[:]))
	}
	happened := time.Unix(1_789_999_990, 0)
	for _, tt := range []struct {
		name string
		by   triggers.Verifier
		head http.Header
		body string
		want triggers.Verified
	}{
		{"standard, envelope", triggers.StandardWebhooks(whsec), standardHeaders(whsec, "msg_1", now, enveloped), enveloped,
			triggers.Verified{ID: "msg_1", Type: "deploy.failed", Payload: json.RawMessage(`{"service":"checkout"}`), Time: time.Unix(1_790_000_000, 0).UTC()}},
		{"standard, data at the top", triggers.StandardWebhooks(whsec), standardHeaders(whsec, "msg_1", now, squashed), squashed,
			triggers.Verified{ID: "msg_1", Type: "deploy.failed", Payload: json.RawMessage(squashed), Time: signedAt}},
		{"standard, no type", triggers.StandardWebhooks(whsec), standardHeaders(whsec, "msg_1", now, `{"data":1}`), `{"data":1}`,
			triggers.Verified{ID: "msg_1", Payload: json.RawMessage(`{"data":1}`), Time: signedAt}},
		{"standard, no object", triggers.StandardWebhooks(whsec), standardHeaders(whsec, "msg_1", now, `[1]`), `[1]`,
			triggers.Verified{ID: "msg_1", Payload: json.RawMessage(`[1]`), Time: signedAt}},
		{"standard, another spelling of type", triggers.StandardWebhooks(whsec), standardHeaders(whsec, "msg_1", now, `{"Type":"a"}`), `{"Type":"a"}`,
			triggers.Verified{ID: "msg_1", Payload: json.RawMessage(`{"Type":"a"}`), Time: signedAt}},
		{"standard, escapes in a name", triggers.StandardWebhooks(whsec), standardHeaders(whsec, "msg_1", now, `{"\u0074ype":"a","d\u0061ta":1}`), `{"\u0074ype":"a","d\u0061ta":1}`,
			triggers.Verified{ID: "msg_1", Type: "a", Payload: json.RawMessage(`1`), Time: signedAt}},
		{"github", triggers.GitHub(plain), githubHeaders(plain, "push", push), push,
			triggers.Verified{ID: hash("push\x00" + push), Type: "push", Payload: json.RawMessage(push)}},
		{"slack", triggers.Slack(plain), slackHeaders(plain, now, mention), mention,
			triggers.Verified{ID: "Ev01", Type: "app_mention", Payload: json.RawMessage(mention), Time: happened}},
		{"slack, no event inside", triggers.Slack(plain), slackHeaders(plain, now, limited), limited,
			triggers.Verified{ID: hash("app_rate_limited\x00" + limited), Type: "app_rate_limited", Payload: json.RawMessage(limited)}},
		{"slack, challenge", triggers.Slack(plain), slackHeaders(plain, now, `{"type":"url_verification","challenge":"abc"}`), `{"type":"url_verification","challenge":"abc"}`,
			triggers.Verified{Reply: []byte("abc")}},
		{"stripe", triggers.Stripe(whsec), stripeHeaders(whsec, now, paid), paid,
			triggers.Verified{ID: "evt_1", Type: "invoice.paid", Payload: json.RawMessage(paid), Time: happened}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := verified(tt.by, tt.head, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Errorf("verified (-want +got):\n%s", diff)
			}
		})
	}
}

// scheme signs a body with a secret and a timestamp as it is spelled.
type scheme struct {
	verifier func(...string) triggers.Verifier
	secrets  [2]string
	body     string
	sign     func(secret, stamp, body string) http.Header
}

func schemes() map[string]scheme {
	return map[string]scheme{
		"standard": {triggers.StandardWebhooks, [2]string{whsec, whsec2}, `{"type":"a","data":{}}`,
			func(secret, stamp, body string) http.Header { return standardHeaders(secret, "msg_1", stamp, body) }},
		"github": {triggers.GitHub, [2]string{plain, "another"}, `{}`,
			func(secret, _, body string) http.Header { return githubHeaders(secret, "push", body) }},
		"slack":  {triggers.Slack, [2]string{plain, "another"}, `{"type":"event_callback","event_id":"1","event":{"type":"a"}}`, slackHeaders},
		"stripe": {triggers.Stripe, [2]string{whsec, whsec2}, `{"id":"1","type":"a"}`, stripeHeaders},
	}
}

func TestASecretMayBeReplacedWhileBothAreInUse(t *testing.T) {
	for name, s := range schemes() {
		v := s.verifier(s.secrets[0], s.secrets[1])
		for _, secret := range s.secrets {
			if _, err := verified(v, s.sign(secret, unix(signedAt), s.body), s.body); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := verified(s.verifier(s.secrets[1]), s.sign(s.secrets[0], unix(signedAt), s.body), s.body); !errors.Is(err, triggers.RefusedSignature) {
			t.Errorf("%s: a secret that was retired: %v", name, err)
		}
	}
}

// B126: the raw bytes are what is signed.
func TestAnyChangeOfTheBodyIsNoticed(t *testing.T) {
	for name, s := range schemes() {
		h := s.sign(s.secrets[0], unix(signedAt), s.body)
		for _, body := range []string{s.body + " ", " " + s.body, strings.Replace(s.body, "{", "{ ", 1), "", "null"} {
			if _, err := verified(s.verifier(s.secrets[0]), h, body); !errors.Is(err, triggers.RefusedSignature) {
				t.Errorf("%s: %q instead of %q: %v", name, body, s.body, err)
			}
		}
		odd := strings.Replace(s.body, "{", "{\n\t ", 1)
		if _, err := verified(s.verifier(s.secrets[0]), s.sign(s.secrets[0], unix(signedAt), odd), odd); err != nil {
			t.Errorf("%s: a body with odd spacing: %v", name, err)
		}
	}
}

// B128: whatever is no plain number is no time.
func TestAStrangeTimestampIsRefused(t *testing.T) {
	for name, s := range schemes() {
		if name == "github" {
			continue // signs none
		}
		now := unix(signedAt)
		for _, stamp := range []string{"", "abc", "NaN", "1e309", "Infinity", "-" + now, "+" + now, "0" + now, now + ".0", now + " ", " " + now,
			now + "abc", "0x6ab2", "١٧٩", "1_790_000_000", now + now, strings.Repeat("9", 400), "-1", "9223372036854775807"} {
			h := s.sign(s.secrets[0], stamp, s.body)
			if _, err := verified(s.verifier(s.secrets[0]), h, s.body); !errors.Is(err, triggers.RefusedSignature) {
				t.Errorf("%s: timestamp %q: %v", name, stamp, err)
			}
		}
	}
}

func TestTheWindowIsFiveMinutesBothWays(t *testing.T) {
	for name, s := range schemes() {
		if name == "github" {
			continue
		}
		for off, good := range map[time.Duration]bool{
			0: true, -300 * time.Second: true, 300 * time.Second: true, -301 * time.Second: false, 301 * time.Second: false,
			-24 * time.Hour: false, 24 * time.Hour: false,
		} {
			for _, part := range []time.Duration{0, 999 * time.Millisecond} {
				_, err := s.verifier(s.secrets[0]).Verify(&triggers.WebhookRequest{Body: []byte(s.body), Now: signedAt.Add(part),
					Header: s.sign(s.secrets[0], unix(signedAt.Add(off)), s.body)})
				if good && err != nil || !good && !errors.Is(err, triggers.RefusedTime) {
					t.Errorf("%s: signed %v from now: %v", name, off, err)
				}
			}
		}
	}
}

// B130: a body that was signed long ago cannot be sent with a new time.
func TestTheTimeIsSigned(t *testing.T) {
	long := unix(signedAt.Add(-time.Hour))
	for name, replace := range map[string]func(http.Header){
		"standard": func(h http.Header) { h.Set("webhook-timestamp", unix(signedAt)) },
		"slack":    func(h http.Header) { h.Set("X-Slack-Request-Timestamp", unix(signedAt)) },
		"stripe": func(h http.Header) {
			h.Set("Stripe-Signature", strings.Replace(h.Get("Stripe-Signature"), long, unix(signedAt), 1))
		},
	} {
		s := schemes()[name]
		h := s.sign(s.secrets[0], long, s.body)
		if _, err := verified(s.verifier(s.secrets[0]), h, s.body); !errors.Is(err, triggers.RefusedTime) {
			t.Errorf("%s: as it was: %v", name, err)
		}
		replace(h)
		if _, err := verified(s.verifier(s.secrets[0]), h, s.body); !errors.Is(err, triggers.RefusedSignature) {
			t.Errorf("%s: with a new time: %v", name, err)
		}
	}
}

func TestHeadersAreReadInOneWay(t *testing.T) {
	now := unix(signedAt)
	with := func(h http.Header, change func(http.Header)) http.Header {
		change(h)
		return h
	}
	standard, slack, stripe, github := schemes()["standard"], schemes()["slack"], schemes()["stripe"], schemes()["github"]
	good := func(s scheme) http.Header { return s.sign(s.secrets[0], now, s.body) }
	signature := good(standard).Get("webhook-signature")
	for _, tt := range []struct {
		name string
		s    scheme
		head http.Header
		want error
	}{
		{"no headers", standard, http.Header{}, triggers.RefusedSignature},
		{"svix names", standard, headers("svix-id", "msg_1", "svix-timestamp", now, "svix-signature", signature), nil},
		{"names mixed", standard, headers("webhook-id", "msg_1", "svix-timestamp", now, "svix-signature", signature), triggers.RefusedSignature},
		{"several signatures", standard, with(good(standard), func(h http.Header) {
			h.Set("webhook-signature", "v1a,abc v2,x v1,"+strings.Repeat("A", 44)+" "+signature)
		}), nil},
		{"signature of another kind", standard, with(good(standard), func(h http.Header) {
			h.Set("webhook-signature", strings.Replace(signature, "v1,", "v1a,", 1))
		}), triggers.RefusedSignature},
		{"signature with something after it", standard, with(good(standard), func(h http.Header) { h.Set("webhook-signature", signature+",x") }), triggers.RefusedSignature},
		{"signature cut short", standard, with(good(standard), func(h http.Header) { h.Set("webhook-signature", signature[:20]) }), triggers.RefusedSignature},
		{"very many signatures", standard, with(good(standard), func(h http.Header) {
			h.Set("webhook-signature", strings.Repeat("v1,"+strings.Repeat("A", 44)+" ", 16)+signature)
		}), triggers.RefusedSignature},
		{"a header of a megabyte", standard, with(good(standard), func(h http.Header) {
			h.Set("webhook-signature", signature+strings.Repeat(" ", 1<<20))
		}), triggers.RefusedSignature},
		{"id sent twice", standard, with(good(standard), func(h http.Header) { h.Add("webhook-id", "msg_1") }), triggers.RefusedSignature},
		{"id with a full stop", standard, standardHeaders(whsec, "msg.1", now, standard.body), triggers.RefusedSignature},
		{"id with a space", standard, standardHeaders(whsec, "msg 1", now, standard.body), triggers.RefusedSignature},
		{"id with a line break", standard, standardHeaders(whsec, "msg\n1", now, standard.body), triggers.RefusedSignature},
		{"id that is long", standard, standardHeaders(whsec, strings.Repeat("a", 257), now, standard.body), triggers.RefusedSignature},
		{"no id", standard, standardHeaders(whsec, "", now, standard.body), triggers.RefusedSignature},
		{"github without a prefix", github, with(good(github), func(h http.Header) {
			h.Set("X-Hub-Signature-256", strings.TrimPrefix(h.Get("X-Hub-Signature-256"), "sha256="))
		}), triggers.RefusedSignature},
		{"github with the old signature alone", github, headers("X-Hub-Signature", "sha1=00", "X-GitHub-Event", "push"), triggers.RefusedSignature},
		{"github without an event", github, with(good(github), func(h http.Header) { h.Del("X-GitHub-Event") }), triggers.RefusedFormat},
		{"slack, another version", slack, with(good(slack), func(h http.Header) {
			h.Set("X-Slack-Signature", strings.Replace(h.Get("X-Slack-Signature"), "v0", "v1", 1))
		}), triggers.RefusedSignature},
		{"slack, no hexadecimal", slack, with(good(slack), func(h http.Header) { h.Set("X-Slack-Signature", "v0="+strings.Repeat("z", 64)) }), triggers.RefusedSignature},
		{"slack, retry", slack, with(good(slack), func(h http.Header) { h.Set("X-Slack-Retry-Num", "3") }), nil},
		{"stripe, several signatures", stripe, with(good(stripe), func(h http.Header) {
			h.Set("Stripe-Signature", "v0=abc, v1="+strings.Repeat("0", 64)+" ,"+h.Get("Stripe-Signature"))
		}), nil},
		{"stripe, two times", stripe, with(good(stripe), func(h http.Header) {
			h.Set("Stripe-Signature", h.Get("Stripe-Signature")+",t="+now)
		}), triggers.RefusedSignature},
		{"stripe, no time", stripe, with(good(stripe), func(h http.Header) {
			h.Set("Stripe-Signature", strings.TrimPrefix(h.Get("Stripe-Signature"), "t="+now+","))
		}), triggers.RefusedSignature},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := verified(tt.s.verifier(tt.s.secrets[0]), tt.head, tt.s.body); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// Examples of the senders' own documentation. Neither body is one we read, so
// a good signature shows in what is wrong with it.
func TestPublishedSignaturesVerify(t *testing.T) {
	const command = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	for name, tt := range map[string]struct {
		by   triggers.Verifier
		head http.Header
		body string
		now  int64
	}{
		"github": {triggers.GitHub("It's a Secret to Everybody"), headers("X-GitHub-Event", "push",
			"X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"), "Hello, World!", 0},
		"slack": {triggers.Slack(plain), headers("X-Slack-Request-Timestamp", "1531420618",
			"X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"), command, 1531420618},
	} {
		_, err := tt.by.Verify(&triggers.WebhookRequest{Header: tt.head, Body: []byte(tt.body), Now: time.Unix(tt.now, 0)})
		if !errors.Is(err, triggers.RefusedFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretsThatAreNoneAreFoundByCheck(t *testing.T) {
	for name, v := range map[string]triggers.Verifier{
		"standard, none":       triggers.StandardWebhooks(),
		"standard, empty":      triggers.StandardWebhooks(whsec, ""),
		"standard, no key":     triggers.StandardWebhooks("whsec_"),
		"standard, no base64":  triggers.StandardWebhooks("whsec_hunter-2"),
		"standard, public key": triggers.StandardWebhooks("whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
		"github":               triggers.GitHub(""),
		"slack":                triggers.Slack(),
		"stripe":               triggers.Stripe(whsec, ""),
	} {
		fe, _ := errors.AsType[*fault.Error](v.(provider.Checker).Check())
		if fe == nil || fe.Code != fault.ConnectionInvalid || fe.Hint == "" {
			t.Errorf("%s: got %v, want %s with a hint", name, fe, fault.ConnectionInvalid)
		}
	}
	// A verifier is not used before it was checked; but if it is, an empty secret
	// is nobody's.
	for name, s := range schemes() {
		if name == "standard" {
			continue // the reference signer cannot do without a key
		}
		if _, err := verified(s.verifier(""), s.sign("", unix(signedAt), s.body), s.body); !errors.Is(err, triggers.RefusedSignature) {
			t.Errorf("%s: signed with an empty secret: %v", name, err)
		}
	}
}

func TestAVerifierDoesNotPrintItsSecrets(t *testing.T) {
	for name, s := range schemes() {
		v := s.verifier(s.secrets[0])
		holder := v.(triggers.SecretHolder)
		if got := holder.Secrets(); len(got) == 0 || got[0] != s.secrets[0] {
			t.Errorf("%s: secrets %v", name, got)
		}
		for _, text := range []string{fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%s", v), fmt.Sprintf("%x", v)} {
			if strings.Contains(text, s.secrets[0]) || strings.Contains(text, strings.TrimPrefix(s.secrets[0], "whsec_")) {
				t.Errorf("%s: printed %s", name, text)
			}
		}
	}
}
