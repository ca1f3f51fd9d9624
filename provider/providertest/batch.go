package providertest

import (
	"context"

	"github.com/bridle-dev/bridle/provider"
)

// batchCases hold for subscriptions that hand over batches; for others they
// hold without further ado.
func batchCases() []testCase {
	events := needEvents()
	return []testCase{
		{name: "Batch/tells what Events tells", needs: []need{events, needEmit()}, check: batchAgrees},
		{name: "Batch/a subscription is read in one of two ways", needs: []need{events}, check: batchOnce},
		{name: "Batch/Close ends a reader without an error", needs: []need{events}, check: batchClose},
		{name: "Batch/Release ends the batches", needs: []need{events}, check: batchRelease},
	}
}

// takeBatches reads n events in batches, breaks off and closes the subscription.
func (s *session) takeBatches(ctx context.Context, sub provider.Subscription, b provider.Batcher, n int) []provider.Event {
	s.Helper()
	var got []provider.Event
	s.promptly("reading batches", func() {
		for batch, err := range b.Batches() {
			if s.note(err) != nil {
				s.Errorf("the batches ended after %d of %d events: %v", len(got), n, err)
				break
			}
			if len(batch) == 0 || len(batch) > provider.MaxBatch {
				s.Errorf("a batch has %d events, want 1 to %d", len(batch), provider.MaxBatch)
			}
			for _, e := range batch {
				if s.checkEvent(e) {
					got = append(got, e)
				}
			}
			if len(got) >= n {
				break
			}
		}
		s.note(sub.Close(ctx))
	})
	if len(got) != n {
		s.Fatalf("got %d events in batches, want %d", len(got), n)
	}
	return got
}

func batchAgrees(ctx context.Context, s *session) {
	c := s.connect(ctx)
	single, whole := s.listen(ctx, c, ""), s.listen(ctx, c, "")
	b, ok := whole.(provider.Batcher)
	if !ok {
		return
	}
	s.emit(burst)
	want := s.take(ctx, single, burst)
	got := s.takeBatches(ctx, whole, b, burst)
	s.wantIDs("in batches", got, want)
	for i := range got {
		if got[i].Cursor != want[i].Cursor {
			s.Errorf("event %s has the cursor %q in a batch, want %q", got[i].ID, got[i].Cursor, want[i].Cursor)
		}
	}
}

func batchOnce(ctx context.Context, s *session) {
	sub := s.listen(ctx, s.connect(ctx), "")
	b, ok := sub.(provider.Batcher)
	if !ok {
		return
	}
	s.note(sub.Close(ctx))
	s.promptly("reading a closed subscription", func() {
		for range b.Batches() {
		}
	})
	if err := s.soon("reading it again", s.read(sub)); err == nil {
		s.Errorf("a subscription that was read in batches can be read again")
	}
}

func batchClose(ctx context.Context, s *session) {
	sub := s.listen(ctx, s.connect(ctx), "")
	b, ok := sub.(provider.Batcher)
	if !ok {
		return
	}
	result := s.readBatches(b)
	s.promptly("Close", func() { s.note(sub.Close(ctx)) })
	if err := s.soon("the reader of batches of a closed subscription", result); err != nil {
		s.Errorf("the batches ended with %v after Close, want no error", err)
	}
}

func batchRelease(ctx context.Context, s *session) {
	c := s.connect(ctx)
	sub := s.listen(ctx, c, "")
	b, ok := sub.(provider.Batcher)
	if !ok {
		return
	}
	result := s.readBatches(b)
	s.release(ctx, c)
	s.soon("the reader of batches of a released connection", result)
	s.promptly("Close after Release", func() { s.note(sub.Close(ctx)) })
}

// readBatches reads until the end, and returns the last error.
func (s *session) readBatches(b provider.Batcher) <-chan error {
	result := make(chan error, 1)
	s.async(func() {
		var last error
		for _, err := range b.Batches() {
			last = s.note(err)
		}
		result <- last
	})
	return result
}
