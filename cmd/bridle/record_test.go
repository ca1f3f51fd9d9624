package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

// recorded is a store file that a harness wrote: one run that is done, one that
// failed, and one that was cut while the shop worked on a payment.
func recorded(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := bolt.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		record(t, s)
	})
	return path
}

func record(t *testing.T, s store.Store) {
	reached := make(chan struct{})
	h, err := harness.New(harness.Config{Name: "clerk", Store: s, Secrets: secrets.Map{"shop.pin": secrets.NewValue("4711-0815")},
		Connections: connection.Set{"shop": {Provider: till(reached)}}})
	if err != nil {
		t.Fatal(err)
	}
	go h.Run(t.Context(), buy("pay", 40), nil, &harness.RunOptions{Execution: "order-1"})
	time.Sleep(time.Minute)
	go h.Run(t.Context(), buy("refund", 1), nil, &harness.RunOptions{Execution: "order-2", Thread: "returns"})
	time.Sleep(time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = h.Run(context.WithoutCancel(t.Context()), buy("pay", 2000), map[string]any{"note": "pin 4711-0815", "item": json.RawMessage(sealed)}, &harness.RunOptions{Execution: "order-3"})
	}()
	<-reached
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
}

// sealed is a reference with a seal that is not good.
const sealed = `{"$ref":{"connection":"shop","id":"e7","key":"k","kind":"item","sig":"seal","thread":"order-3"}}`

// buy finds an item, and does something about it with a secret.
func buy(op string, amount int) steps.Sequence {
	return steps.Sequence{ID: "order", Steps: []steps.Step{
		steps.Call{ID: "find", Connection: "shop", Op: "find"},
		steps.Call{ID: "act", Connection: "shop", Op: op, Args: map[string]any{"amount": amount, "pin": secrets.Ref("shop.pin")}},
	}}
}

// till is a shop: it does not answer payments of 1000 and more.
func till(reached chan struct{}) *inmemory.Provider {
	find := inmemory.Func(func(context.Context, *inmemory.Call, struct{}) (map[string]string, error) {
		time.Sleep(12 * time.Millisecond)
		return map[string]string{"item": "e7"}, nil
	})
	find.Result = []byte(`{"properties":{"item":{"x-ref":{"kind":"item"}}}}`)
	type order struct {
		Amount int    `json:"amount"`
		Pin    string `json:"pin"`
	}
	return inmemory.New(inmemory.Options{Surface: "web", Operations: map[string]inmemory.Operation{
		"find": find,
		"pay": inmemory.Func(func(ctx context.Context, _ *inmemory.Call, o order) (string, error) {
			time.Sleep(1500 * time.Millisecond)
			if o.Amount < 1000 {
				return "paid", nil
			}
			close(reached)
			<-ctx.Done()
			return "", ctx.Err()
		}),
		"refund": inmemory.Func(func(context.Context, *inmemory.Call, order) (string, error) {
			return "", errors.New("the till is closed\nSTATE  EXECUTION\ndone   order-2")
		}),
	}})
}
