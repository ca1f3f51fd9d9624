package refstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
)

func capCases() []testCase {
	return []testCase{
		{"BlobCap", &refs.BlobOptions{MaxBlob: 1000}, func(k *kit) {
			kept := k.put(of("o"), pattern(1000))
			k.putError("one byte too many", of("o"), bytes.NewReader(pattern(1001)), fault.BlobUnavailable)
			k.putError("content without end", of("o"), endless{}, fault.BlobUnavailable)
			k.wantContent(kept, pattern(1000))
			k.collect("o", 1)
		}},
		{"OwnerCap", &refs.BlobOptions{MaxOwner: 1000}, func(k *kit) {
			k.put(of("o"), pattern(600))
			k.putError("more than is left", of("o"), bytes.NewReader(pattern(401)), fault.BlobUnavailable)
			k.put(of("other"), pattern(1000))
			k.put(of("o"), pattern(400))
			k.putError("more than nothing", of("o"), strings.NewReader("x"), fault.BlobUnavailable)
			k.put(of("o"), nil)
			k.collect("o", 3)
			k.put(of("o"), pattern(1000))
		}},
		{"NoCaps", &refs.BlobOptions{MaxBlob: -1, MaxOwner: -1}, func(k *kit) {
			content := pattern(1 << 20)
			k.wantContent(k.put(of("o"), content), content)
		}},
		{"OwnerCapHoldsForMany", &refs.BlobOptions{MaxOwner: 1000}, func(k *kit) {
			var kept atomic.Int64
			var work sync.WaitGroup
			for range 16 {
				work.Go(func() {
					_, err := k.blobs.Put(k.ctx, of("o"), bytes.NewReader(pattern(100)))
					switch {
					case err == nil:
						kept.Add(1)
					case !errors.Is(err, fault.BlobUnavailable):
						k.Errorf("Put: %v", err)
					}
				})
			}
			work.Wait()
			// Puts that fail may have taken room from others that ran beside them.
			if got := kept.Load(); got > 10 || got < 1 {
				k.Errorf("%d blobs of 100 bytes, want at most the 10 that fit", got)
			}
			k.collect("o", int(kept.Load()))
		}},
	}
}

func failureCases() []testCase {
	return []testCase{
		{"ContentThatFails", &refs.BlobOptions{MaxOwner: 1 << 20}, func(k *kit) {
			broken := errors.New("broken")
			for range 3 {
				err := k.putError("content that fails", of("o"), io.MultiReader(bytes.NewReader(pattern(700<<10)), failing{broken}), fault.BlobUnavailable)
				if !errors.Is(err, broken) {
					k.Errorf("error %v, want it to wrap the content's", err)
				}
			}
			k.put(of("o"), pattern(1<<20))
			k.collect("o", 1)
		}},
		{"ContentThatPanics", &refs.BlobOptions{MaxOwner: 1 << 20}, func(k *kit) {
			func() {
				defer func() { _ = recover() }()
				_, _ = k.blobs.Put(k.ctx, of("o"), io.MultiReader(bytes.NewReader(pattern(700<<10)), panicking{}))
			}()
			k.put(of("o"), pattern(1<<20))
			k.collect("o", 1)
		}},
		{"ContentWithoutProgress", nil, func(k *kit) {
			k.putError("content that says nothing", of("o"), silent{}, fault.BlobUnavailable)
			k.collect("o", 0)
		}},
		{"Cancelled", &refs.BlobOptions{MaxOwner: 1 << 20}, func(k *kit) {
			kept := k.put(of("other"), []byte("x"))
			ctx, cancel := context.WithCancel(k.ctx)
			_, err := k.blobs.Put(ctx, of("o"), io.MultiReader(bytes.NewReader(pattern(700<<10)), calling{cancel}, endless{}))
			k.wantCode("Put", err, fault.Cancelled)
			_, _, err = k.blobs.Open(ctx, kept.ID)
			k.wantCode("Open", err, fault.Cancelled)
			_, err = k.blobs.Collect(ctx, "other")
			k.wantCode("Collect", err, fault.Cancelled)
			k.put(of("o"), pattern(1<<20))
			k.collect("o", 1)
			k.collect("other", 1)
		}},
		{"Closed", nil, func(k *kit) {
			kept := k.put(of("o"), []byte("x"))
			var work sync.WaitGroup
			for range 4 {
				work.Go(func() {
					if err := k.blobs.Close(); err != nil {
						k.Errorf("Close: %v", err)
					}
				})
			}
			work.Wait()
			k.putError("something after Close", of("o"), strings.NewReader("x"), fault.Closed)
			_, _, err := k.blobs.Open(k.ctx, kept.ID)
			k.wantCode("Open after Close", err, fault.Closed)
			_, err = k.blobs.Collect(k.ctx, "o")
			k.wantCode("Collect after Close", err, fault.Closed)
		}},
	}
}

// endless is content without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("content") }

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

// calling calls a function and ends.
type calling struct{ f func() }

func (c calling) Read([]byte) (int, error) {
	c.f()
	return 0, io.EOF
}
