package refstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
)

// kit is what a case works with: blobs of its own, a context that ends shortly
// before the case's time is up, and steps that fail the case.
type kit struct {
	*testing.T
	ctx   context.Context
	cfg   Config
	blobs refs.Blobs
}

// runCase runs one case on its own goroutine, so that the time limit holds even
// against an implementation that never returns.
func runCase(t *testing.T, cfg Config, c testCase) {
	limit := cfg.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit*3/4)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if value := recover(); value != nil {
				t.Errorf("panic: %v\n%s", value, debug.Stack())
			}
		}()
		k := &kit{T: t, ctx: ctx, cfg: cfg, blobs: cfg.New(t, c.opts)}
		defer func() {
			if err := k.blobs.Close(); err != nil {
				t.Errorf("Close after the case: %v", err)
			}
		}()
		c.run(k)
	}()
	stuck := time.NewTimer(limit)
	defer stuck.Stop()
	select {
	case <-done:
	case <-stuck.C:
		buf := make([]byte, 64<<10)
		t.Fatalf("still running after %v; goroutines:\n%s", limit, buf[:runtime.Stack(buf, true)])
	}
}

// of describes a blob of an owner.
func of(owner string) refs.BlobInfo {
	return refs.BlobInfo{MIMEType: "text/plain", Owner: owner, Thread: "t1"}
}

// put keeps content, which must succeed.
func (k *kit) put(info refs.BlobInfo, content []byte) refs.BlobInfo {
	k.Helper()
	kept, err := k.blobs.Put(k.ctx, info, bytes.NewReader(content))
	if err != nil {
		k.Fatalf("Put of %d bytes: %v", len(content), err)
	}
	return kept
}

// putError keeps content, which must fail with a code and leave nothing.
func (k *kit) putError(what string, info refs.BlobInfo, content io.Reader, code fault.Code) error {
	k.Helper()
	kept, err := k.blobs.Put(k.ctx, info, content)
	k.wantCode("Put of "+what, err, code)
	if kept != (refs.BlobInfo{}) {
		k.Errorf("Put of %s: returned %+v beside the error", what, kept)
	}
	return err
}

// content reads a blob from its beginning to its end.
func (k *kit) content(id string) ([]byte, refs.BlobInfo) {
	k.Helper()
	r, info, err := k.blobs.Open(k.ctx, id)
	if err != nil {
		k.Fatalf("Open: %v", err)
	}
	content, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		k.Fatalf("reading a blob of %d bytes: %v", info.Size, err)
	}
	return content, info
}

// wantContent checks a blob and its description.
func (k *kit) wantContent(want refs.BlobInfo, content []byte) {
	k.Helper()
	got, info := k.content(want.ID)
	if !bytes.Equal(got, content) {
		k.Errorf("content: %d bytes that differ from the %d that were put", len(got), len(content))
	}
	if diff := cmp.Diff(want, info); diff != "" {
		k.Errorf("description (-want +got):\n%s", diff)
	}
}

// wantGone checks that there is no blob under an id.
func (k *kit) wantGone(id string) {
	k.Helper()
	r, info, err := k.blobs.Open(k.ctx, id)
	k.wantCode("Open of "+fault.Quote(id), err, fault.BlobUnavailable)
	if r != nil || info != (refs.BlobInfo{}) {
		k.Errorf("Open of %s: returned %v, %+v beside the error", fault.Quote(id), r, info)
	}
}

// collect collects an owner and checks how many blobs there were.
func (k *kit) collect(owner string, want int) {
	k.Helper()
	if got, err := k.blobs.Collect(k.ctx, owner); err != nil || got != want {
		k.Errorf("Collect(%s) = %d, %v, want %d", fault.Quote(owner), got, err, want)
	}
}

// wantCode checks that err carries a code.
func (k *kit) wantCode(what string, err error, code fault.Code) {
	k.Helper()
	if !errors.Is(err, code) {
		k.Errorf("%s: error %v, want code %s", what, err, code)
	}
}

// pattern is content in which no part is like another of the same length.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8*7 ^ i>>16*13)
	}
	return b
}
