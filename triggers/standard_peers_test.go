package triggers_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bridle-dev/bridle/internal/peers"
	"github.com/bridle-dev/bridle/triggers"
)

// webhookCase is one delivery for testdata/webhooks.cjs; without a signature it
// is to be signed.
type webhookCase struct {
	Secret    string `json:"secret"`
	ID        string `json:"id"`
	At        int64  `json:"at"`
	Body      []byte `json:"body"`
	Signature string `json:"signature,omitempty"`
}

// libraries are the packages of the npm registry, with their entries.
func libraries() map[string]string {
	return map[string]string{peers.StandardWebhooks: "dist/index.js", peers.Svix: "dist/index.js"}
}

// bodies are what is signed: what senders write, and what they might.
func bodies() map[string]string {
	return map[string]string{
		"empty":   "",
		"object":  `{"type":"deploy.failed","timestamp":"2026-09-21T14:13:20Z","data":{"service":"checkout"}}`,
		"spaced":  "{\n  \"type\" : \"a\" ,\t\"data\":{ }\r\n}\n",
		"Unicode": `{"type":"a","data":"żółć, 🦄, ` + "\u2028" + `, \u0000 and ` + "\u0301" + `"}`,
		"no JSON": "payload=%7B%7D",
		"64 KiB":  `{"type":"a","data":"` + strings.Repeat("64 KiB…", 64<<10/9) + `"}`,
	}
}

func runLibrary(t *testing.T, pkg, entry string, cases []webhookCase) []string {
	t.Helper()
	line := peers.Node(t, pkg, entry)
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), line[0], "testdata/webhooks.cjs", line[1])
	cmd.Stdin = bytes.NewReader(input)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var results []string
	if err := json.Unmarshal(out, &results); err != nil || len(results) != len(cases) {
		t.Fatalf("%d results of %d: %v", len(results), len(cases), err)
	}
	return results
}

func TestSignaturesOfOtherLibrariesVerify(t *testing.T) {
	for pkg, entry := range libraries() {
		t.Run(pkg, func(t *testing.T) {
			var cases []webhookCase
			for _, body := range bodies() {
				for _, off := range []int64{0, -300, 300, -301, 301} {
					cases = append(cases, webhookCase{Secret: whsec, ID: "msg_1", At: signedAt.Unix() + off, Body: []byte(body)})
				}
			}
			for i, signature := range runLibrary(t, pkg, entry, cases) {
				c := cases[i]
				stamp := unix(time.Unix(c.At, 0))
				_, err := verified(triggers.StandardWebhooks(whsec),
					headers("webhook-id", c.ID, "webhook-timestamp", stamp, "webhook-signature", signature), string(c.Body))
				off := c.At - signedAt.Unix()
				var want error
				switch {
				case off < -300 || off > 300:
					want = triggers.RefusedTime
				case !json.Valid(c.Body):
					want = triggers.RefusedFormat // the signature is good, the body none
				}
				if !errors.Is(err, want) {
					t.Errorf("%.40q signed %d s from now: got %v, want %v", c.Body, off, err, want)
				}
			}
		})
	}
}

func TestOurSignaturesVerifyElsewhere(t *testing.T) {
	const edge = 290 // seconds: near enough, and the other process has its own clock
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(whsec, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	hook, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		t.Fatal(err)
	}
	for pkg, entry := range libraries() {
		t.Run(pkg, func(t *testing.T) {
			var cases []webhookCase
			for _, body := range bodies() {
				for _, off := range []time.Duration{0, -edge * time.Second, edge * time.Second, -time.Hour, time.Hour} {
					at := time.Now().Add(off)
					signature, err := hook.Sign("msg_1", at, []byte(body))
					if err != nil {
						t.Fatal(err)
					}
					cases = append(cases, webhookCase{Secret: whsec, ID: "msg_1", At: at.Unix(), Body: []byte(body), Signature: signature})
				}
			}
			spoilt := cases[0]
			spoilt.Body = append([]byte("x"), spoilt.Body...)
			cases = append(cases, spoilt)
			for i, got := range runLibrary(t, pkg, entry, cases) {
				want := "verified"
				if off := time.Until(time.Unix(cases[i].At, 0)).Abs(); off > 5*time.Minute || i == len(cases)-1 {
					want = "WebhookVerificationError"
				}
				if got != want {
					t.Errorf("%.40q signed at %d: got %s, want %s", cases[i].Body, cases[i].At, got, want)
				}
			}
		})
	}
}
