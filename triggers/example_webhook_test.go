package triggers_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// DeployFailed is the payload of "deploy.failed".
type DeployFailed struct {
	Service string `json:"service"`
}

// A source that is fed by signed webhooks. A harness listens and stores; here a
// loop stands for it.
func ExampleNewWebhookReceiver() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	hooks := triggers.NewWebhookReceiver(nil)
	deploys := hooks.Source("/hooks/deploys", triggers.StandardWebhooks(secret), triggers.Declare[DeployFailed]("deploy.failed"))

	ctx := context.Background()
	conns, err := deploys.Connect(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	sub, err := conns[0].(provider.Listener).Listen(ctx, &provider.ListenRequest{Event: "deploy.failed"})
	if err != nil {
		fmt.Println(err)
		return
	}
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		for e, err := range sub.Events() {
			if err != nil {
				return // released
			}
			d, _ := provider.Decode[DeployFailed](e)
			fmt.Println("stored", e.ID, d.Service)
		}
	}()

	// The sender's side.
	body := `{"type":"deploy.failed","timestamp":"2026-09-21T14:13:20Z","data":{"service":"checkout"}}`
	now := time.Now()
	signer, _ := standardwebhooks.NewWebhook(secret)
	signature, _ := signer.Sign("msg_1", now, []byte(body))
	request := httptest.NewRequest(http.MethodPost, "/hooks/deploys", strings.NewReader(body))
	request.Header.Set("webhook-id", "msg_1")
	request.Header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
	request.Header.Set("webhook-signature", signature)
	answer := httptest.NewRecorder()
	hooks.ServeHTTP(answer, request)

	_ = conns[0].Release(ctx)
	<-stored
	fmt.Println("the sender is told", answer.Code)
	// Output:
	// stored msg_1 checkout
	// the sender is told 204
}

// tickets verifies a sender that signs id, time and body with HMAC-SHA256, and
// writes them into headers of its own.
type tickets struct{ secret string }

// Verify takes everything that matters from what is signed.
func (v tickets) Verify(r *triggers.WebhookRequest) (*triggers.Verified, error) {
	id, stamp := r.Header.Get("X-Ticket-Id"), r.Header.Get("X-Ticket-Time")
	mac := hmac.New(sha256.New, []byte(v.secret))
	fmt.Fprintf(mac, "%s\n%s\n%s", id, stamp, r.Body)
	tag, err := hex.DecodeString(r.Header.Get("X-Ticket-Signature"))
	if err != nil || !hmac.Equal(mac.Sum(nil), tag) {
		return nil, triggers.RefusedSignature
	}
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil || r.Now.Sub(at).Abs() > 5*time.Minute {
		return nil, triggers.RefusedTime
	}
	return &triggers.Verified{ID: provider.EventID(id), Type: "ticket", Time: at, Payload: r.Body}, nil
}

// A scheme of one's own.
func ExampleVerifier() {
	hooks := triggers.NewWebhookReceiver(nil)
	hooks.Source("/hooks/tickets", tickets{"a shared secret"}, triggers.EventType{Name: "ticket"})

	request := httptest.NewRequest(http.MethodPost, "/hooks/tickets", strings.NewReader(`{"number":7}`))
	answer := httptest.NewRecorder()
	hooks.ServeHTTP(answer, request)
	fmt.Println(answer.Code, hooks.Status().Refused[triggers.RefusedSignature])
	// Output:
	// 401 1
}
