package refstest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/store"
)

// fake is blobs in a store, broken by changing what its fields do.
type fake struct {
	refs.Blobs
	store         store.Store
	durable       bool // Reopen finds the store again
	capsForgotten bool // and forgets its options
	put           func(context.Context, refs.BlobInfo, io.Reader) (refs.BlobInfo, error)
	open          func(context.Context, string) (io.ReadSeekCloser, refs.BlobInfo, error)
	collect       func(context.Context, string) (int, error)
	close         func() error
}

func newFake(opts *refs.BlobOptions, wrap func(*fake)) *fake {
	f := &fake{store: store.Memory(), durable: true}
	f.Blobs = refs.StoreBlobs(f.store, opts)
	f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
		return f.Blobs.Put(ctx, info, r)
	}
	f.open = func(ctx context.Context, id string) (io.ReadSeekCloser, refs.BlobInfo, error) {
		return f.Blobs.Open(ctx, id)
	}
	f.collect = func(ctx context.Context, owner string) (int, error) { return f.Blobs.Collect(ctx, owner) }
	f.close = func() error { return f.Blobs.Close() }
	wrap(f)
	return f
}

func (f *fake) Put(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
	return f.put(ctx, info, r)
}

func (f *fake) Open(ctx context.Context, id string) (io.ReadSeekCloser, refs.BlobInfo, error) {
	return f.open(ctx, id)
}

func (f *fake) Collect(ctx context.Context, owner string) (int, error) { return f.collect(ctx, owner) }

func (f *fake) Close() error { return f.close() }

// brokenBlobs break the contract in one way, which one case must notice.
type brokenBlobs struct {
	name       string
	rejectedBy string
	wrap       func(*fake)
}

func broken() []brokenBlobs {
	return append(append(brokenContent(), brokenCaps()...), brokenCollecting()...)
}

// opened changes the content that Open returns.
func opened(change func([]byte) []byte) func(*fake) {
	return func(f *fake) {
		open := f.open
		f.open = func(ctx context.Context, id string) (io.ReadSeekCloser, refs.BlobInfo, error) {
			r, info, err := open(ctx, id)
			if err != nil {
				return r, info, err
			}
			content, err := io.ReadAll(r)
			return noClose{bytes.NewReader(change(content))}, info, err
		}
	}
}

type noClose struct{ io.ReadSeeker }

func (noClose) Close() error { return nil }

// stubborn never moves.
type stubborn struct{ io.ReadSeekCloser }

func (stubborn) Seek(offset int64, _ int) (int64, error) { return offset, nil }

func brokenContent() []brokenBlobs {
	return []brokenBlobs{
		{"drops_a_byte", "RoundTrip", opened(func(b []byte) []byte { return b[:max(0, len(b)-1)] })},
		{"swaps_bytes", "RoundTrip", opened(func(b []byte) []byte {
			if len(b) > 512<<10 {
				b[512<<10-1], b[512<<10] = b[512<<10], b[512<<10-1]
			}
			return b
		})},
		{"forgets_sensitive", "DescriptionIsKept", func(f *fake) {
			put := f.put
			f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
				info.Sensitive = false
				return put(ctx, info, r)
			}
		}},
		{"counts_its_ids", "IDsAreRandom", func(f *fake) {
			var mu sync.Mutex
			ids := map[string]string{}
			put, open := f.put, f.open
			f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
				kept, err := put(ctx, info, r)
				mu.Lock()
				defer mu.Unlock()
				short := strconv.Itoa(len(ids))
				ids[short], kept.ID = kept.ID, short
				return kept, err
			}
			f.open = func(ctx context.Context, id string) (io.ReadSeekCloser, refs.BlobInfo, error) {
				mu.Lock()
				defer mu.Unlock()
				return open(ctx, ids[id])
			}
		}},
		{"takes_the_callers_time", "PutOverwritesNothing", func(f *fake) {
			put := f.put
			f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
				kept, err := put(ctx, info, r)
				if !info.Created.IsZero() {
					kept.Created = info.Created
				}
				return kept, err
			}
		}},
		{"shares_its_memory", "ContentIsCopied", func(f *fake) {
			var mu sync.Mutex
			shared := map[string][]byte{}
			open := f.open
			f.open = func(ctx context.Context, id string) (io.ReadSeekCloser, refs.BlobInfo, error) {
				mu.Lock()
				defer mu.Unlock()
				r, info, err := open(ctx, id)
				if err == nil && shared[id] == nil {
					shared[id], err = io.ReadAll(r)
				}
				return struct {
					*bytes.Reader
					io.Closer
				}{bytes.NewReader(shared[id]), r}, info, err
			}
		}},
		{"cannot_seek", "Seek", func(f *fake) {
			open := f.open
			f.open = func(ctx context.Context, id string) (io.ReadSeekCloser, refs.BlobInfo, error) {
				r, info, err := open(ctx, id)
				return stubborn{r}, info, err
			}
		}},
		{"reads_once", "AnyReader", func(f *fake) {
			put := f.put
			f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
				buf := make([]byte, 1<<20)
				n, _ := r.Read(buf)
				return put(ctx, info, bytes.NewReader(buf[:n]))
			}
		}},
		{"tolerates_ids", "UnknownIDs", func(f *fake) {
			open := f.open
			f.open = func(ctx context.Context, id string) (io.ReadSeekCloser, refs.BlobInfo, error) {
				return open(ctx, strings.TrimRight(id, "/\x00"))
			}
		}},
		{"wants_no_thread", "BadDescriptions", func(f *fake) {
			put := f.put
			f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
				if info.Thread == "" {
					info.Thread = "none"
				}
				return put(ctx, info, r)
			}
		}},
	}
}

// roomy ignores its options.
func roomy(f *fake) { f.Blobs = refs.StoreBlobs(f.store, nil) }

// leaking keeps what was read of content that failed.
func leaking(f *fake) {
	put := f.put
	f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
		content, readErr := io.ReadAll(io.LimitReader(r, 2<<20))
		kept, err := put(context.WithoutCancel(ctx), info, bytes.NewReader(content))
		if readErr != nil {
			return refs.BlobInfo{}, fault.New(fault.BlobUnavailable, "%w", readErr)
		}
		return kept, err
	}
}

func brokenCaps() []brokenBlobs {
	return []brokenBlobs{
		{"has_no_blob_cap", "BlobCap", func(f *fake) {
			f.Blobs = refs.StoreBlobs(f.store, &refs.BlobOptions{MaxBlob: 2000})
		}},
		{"has_no_owner_cap", "OwnerCap", roomy},
		{"has_a_cap_of_its_own", "NoCaps", func(f *fake) {
			f.Blobs = refs.StoreBlobs(f.store, &refs.BlobOptions{MaxBlob: 1000})
		}},
		{"forgets_the_cap_in_a_crowd", "OwnerCapHoldsForMany", roomy},
		{"keeps_what_failed", "ContentThatFails", leaking},
		{"keeps_what_panicked", "ContentThatPanics", func(f *fake) {
			put := f.put
			f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
				_, _ = put(ctx, info, bytes.NewReader(make([]byte, 100)))
				return put(ctx, info, r)
			}
		}},
		{"waits_for_silence", "ContentWithoutProgress", func(f *fake) {
			put := f.put
			f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
				for ctx.Err() == nil {
					if n, err := r.Read(make([]byte, 1)); n > 0 || err != nil {
						break
					}
				}
				return put(ctx, info, r)
			}
		}},
		{"goes_on_when_cancelled", "Cancelled", func(f *fake) {
			put := f.put
			f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
				return put(context.WithoutCancel(ctx), info, io.LimitReader(r, 800<<10))
			}
		}},
		{"works_after_close", "Closed", func(f *fake) { f.close = func() error { return nil } }},
		{"fails_to_close_twice", "Closed", func(f *fake) {
			var once sync.Once
			f.close = func() error {
				err := errors.New("closed already")
				once.Do(func() { err = f.Blobs.Close() })
				return err
			}
		}},
	}
}

func brokenCollecting() []brokenBlobs {
	return []brokenBlobs{
		{"folds_owners", "CollectTakesOneOwner", func(f *fake) {
			put, collect := f.put, f.collect
			f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
				info.Owner = strings.ToLower(info.Owner)
				return put(ctx, info, r)
			}
			f.collect = func(ctx context.Context, owner string) (int, error) { return collect(ctx, strings.ToLower(owner)) }
		}},
		{"cuts_readers_short", "CollectWhileOthersRead", func(f *fake) {
			open, collect := f.open, f.collect
			collected := make(chan struct{})
			f.collect = func(ctx context.Context, owner string) (int, error) {
				defer close(collected)
				return collect(ctx, owner)
			}
			f.open = func(ctx context.Context, id string) (io.ReadSeekCloser, refs.BlobInfo, error) {
				r, info, err := open(ctx, id)
				return cutShort{r, collected}, info, err
			}
		}},
		{"loses_what_came_before", "CollectInTheMiddleOfPut", func(f *fake) {
			put := f.put
			f.put = func(ctx context.Context, info refs.BlobInfo, r io.Reader) (refs.BlobInfo, error) {
				content, err := io.ReadAll(r)
				if err != nil || len(content) > 1500<<10 {
					return put(ctx, info, bytes.NewReader(content))
				}
				return put(ctx, info, bytes.NewReader(content[min(len(content), 512<<10):]))
			}
		}},
		{"fails_when_collected", "CollectWhileOthersPut", func(f *fake) {
			var once sync.Once
			collect := f.collect
			f.collect = func(ctx context.Context, owner string) (int, error) {
				err := error(nil)
				once.Do(func() { err = fault.New(fault.StoreFailed, "busy") })
				if err != nil {
					return 0, err
				}
				return collect(ctx, owner)
			}
		}},
		{"forgets_blobs", "BlobsOutliveTheirHandle", func(f *fake) { f.durable = false }},
		{"forgets_caps", "CapsOutliveTheirHandle", func(f *fake) { f.capsForgotten = true }},
	}
}

// cutShort ends when its blob is collected, as if that were all of it.
type cutShort struct {
	io.ReadSeekCloser
	collected chan struct{}
}

func (c cutShort) Read(p []byte) (int, error) {
	select {
	case <-c.collected:
		return 0, io.EOF
	default:
		return c.ReadSeekCloser.Read(p)
	}
}
