package harness

import (
	"context"
	"iter"

	"github.com/bridle-dev/bridle/provider"
)

// heard is the subscription of a trigger, whose errors come without credentials
// and whose panics are contained.
type heard struct {
	h    *AgentHarness
	what string
	sub  provider.Subscription
}

// heardBatches is one that hands over many events at a time.
type heardBatches struct {
	*heard
	batches provider.Batcher
}

// hear wraps a subscription.
func hear(h *AgentHarness, sup *supervisor, sub provider.Subscription) provider.Subscription {
	s := &heard{h: h, what: "the provider of " + string(sup.name), sub: sub}
	if b, ok := sub.(provider.Batcher); ok {
		return &heardBatches{s, b}
	}
	return s
}

// Cursor implements provider.Subscription.
func (s *heard) Cursor() provider.Cursor { return s.sub.Cursor() }

// Events implements provider.Subscription.
func (s *heard) Events() iter.Seq2[provider.Event, error] { return hearing(s, s.sub.Events) }

// Batches implements provider.Batcher.
func (s *heardBatches) Batches() iter.Seq2[[]provider.Event, error] {
	return hearing(s.heard, s.batches.Batches)
}

// Close implements provider.Subscription.
func (s *heard) Close(ctx context.Context) (err error) {
	defer func() { err = s.h.chain.Error(err) }()
	defer s.h.contain(&err, s.what)
	return s.sub.Close(ctx)
}

// hearing passes on what is heard. A panic of the provider is the last error.
func hearing[T any](s *heard, begin func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		over := false
		failed := func() (failed error) {
			defer s.h.contain(&failed, s.what)
			for v, err := range begin() {
				over = err != nil
				if !yield(v, s.h.chain.Error(err)) || over {
					over = true
					return nil
				}
			}
			return nil
		}()
		if failed != nil && !over {
			yield(none, failed)
		}
	}
}
