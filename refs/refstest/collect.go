package refstest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing/iotest"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
)

func collectCases() []testCase {
	return []testCase{
		{"CollectTakesOneOwner", nil, func(k *kit) {
			owners := []string{"o", "O", "o/1", "o/", "o\x00", "oo", strings.Repeat("o", 3000), "."}
			kept := map[string]refs.BlobInfo{}
			for _, owner := range owners {
				kept[owner] = k.put(of(owner), []byte(owner))
			}
			k.put(of("o"), pattern(1<<20))
			k.collect("o", 2)
			k.collect("o", 0)
			k.collect("", 0)
			k.collect("nobody", 0)
			k.wantGone(kept["o"].ID)
			for _, owner := range owners[1:] {
				k.wantContent(kept[owner], []byte(owner))
			}
		}},
		{"CollectWhileOthersRead", nil, func(k *kit) {
			content := pattern(1<<20 + 1)
			r, _, err := k.blobs.Open(k.ctx, k.put(of("o"), content).ID)
			if err != nil {
				k.Fatalf("Open: %v", err)
			}
			defer r.Close()
			head := make([]byte, 10)
			if _, err := io.ReadFull(r, head); err != nil {
				k.Fatalf("reading: %v", err)
			}
			k.collect("o", 1)
			k.put(of("o"), make([]byte, len(content)))
			rest, err := io.ReadAll(r)
			if err != nil {
				k.wantCode("reading on", err, fault.BlobUnavailable)
			} else if len(head)+len(rest) != len(content) {
				k.Errorf("read on to %d bytes of %d", len(head)+len(rest), len(content))
			}
			if !bytes.HasPrefix(content[len(head):], rest) {
				k.Error("reading on gave other content")
			}
		}},
		{"CollectInTheMiddleOfPut", &refs.BlobOptions{MaxOwner: 2 << 20}, func(k *kit) {
			first, second := pattern(700<<10), pattern(800<<10)
			content := io.MultiReader(bytes.NewReader(first), calling{func() { k.collect("o", 0) }}, bytes.NewReader(second))
			kept, err := k.blobs.Put(k.ctx, of("o"), content)
			if err != nil {
				k.wantCode("Put", err, fault.BlobUnavailable)
				k.collect("o", 0)
			} else {
				k.wantContent(kept, append(first, second...))
				k.collect("o", 1)
			}
			k.put(of("o"), pattern(2<<20))
		}},
		{"CollectWhileOthersPut", nil, func(k *kit) {
			var work sync.WaitGroup
			for range 4 {
				work.Go(func() {
					for range 5 {
						kept, err := k.blobs.Put(k.ctx, of("o"), iotest.HalfReader(bytes.NewReader(pattern(600<<10))))
						if err != nil && !errors.Is(err, fault.BlobUnavailable) {
							k.Errorf("Put: %v", err)
						}
						if r, _, err := k.blobs.Open(k.ctx, kept.ID); err == nil {
							if err := r.Close(); err != nil {
								k.Errorf("Close of a reader: %v", err)
							}
						}
					}
				})
				work.Go(func() {
					for range 5 {
						if _, err := k.blobs.Collect(k.ctx, "o"); err != nil {
							k.Errorf("Collect: %v", err)
						}
					}
				})
			}
			work.Wait()
			if _, err := k.blobs.Collect(k.ctx, "o"); err != nil {
				k.Errorf("Collect: %v", err)
			}
			k.wantContent(k.put(of("o"), []byte("x")), []byte("x"))
			k.collect("o", 1)
		}},
	}
}

func durableCases() []testCase {
	return []testCase{
		{"BlobsOutliveTheirHandle", nil, func(k *kit) {
			content := pattern(600 << 10)
			kept := k.put(refs.BlobInfo{MIMEType: "image/png", Sensitive: true, Owner: "o", Thread: "t"}, content)
			k.reopen(nil)
			k.wantContent(kept, content)
			k.put(of("o"), []byte("x"))
			k.collect("o", 2)
			k.wantGone(kept.ID)
			k.reopen(nil)
			k.wantGone(kept.ID)
		}},
		{"CapsOutliveTheirHandle", nil, func(k *kit) {
			k.put(of("o"), pattern(600))
			k.reopen(&refs.BlobOptions{MaxOwner: 1000})
			k.putError("more than is left", of("o"), bytes.NewReader(pattern(401)), fault.BlobUnavailable)
			k.put(of("o"), pattern(400))
			k.collect("o", 2)
			k.put(of("o"), pattern(1000))
		}},
	}
}

func (k *kit) reopen(opts *refs.BlobOptions) {
	k.Helper()
	if err := k.blobs.Close(); err != nil {
		k.Fatalf("Close: %v", err)
	}
	k.blobs = k.cfg.Reopen(k.T, k.blobs, opts)
}
