package refs

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"sync"

	"github.com/bridle-dev/bridle/fault"
)

// MemoryBlobs keeps blobs in memory, until they are collected or closed. It is
// the reference for other implementations, and the one for tests.
func MemoryBlobs(opts *BlobOptions) Blobs {
	return &memoryBlobs{quota: newQuota(opts), blobs: map[string]memoryBlob{}}
}

type memoryBlobs struct {
	quota *quota

	mu     sync.Mutex
	blobs  map[string]memoryBlob // guarded by mu, like the next
	closed bool
}

// memoryBlob is never written to.
type memoryBlob struct {
	info    BlobInfo
	content []byte
}

// copyBuffer is how much is read at once.
const copyBuffer = 32 << 10

func (m *memoryBlobs) Put(ctx context.Context, info BlobInfo, content io.Reader) (BlobInfo, error) {
	info, err := described(info, rand.Text())
	if err != nil {
		return BlobInfo{}, err
	}
	if err := m.open(); err != nil {
		return BlobInfo{}, err
	}
	kept := false
	defer func() {
		if !kept {
			m.quota.release(info.Owner, info.Size)
		}
	}()
	var all bytes.Buffer
	buf := make([]byte, copyBuffer)
	for ended := false; !ended; {
		var n int
		if n, ended, err = fill(ctx, content, buf); err != nil {
			return BlobInfo{}, err
		}
		if err := m.quota.grow(info.Owner, info.Size, int64(n)); err != nil {
			return BlobInfo{}, err
		}
		info.Size += int64(n)
		all.Write(buf[:n])
	}
	if err := m.keep(info, bytes.Clone(all.Bytes())); err != nil {
		return BlobInfo{}, err
	}
	kept = true
	return info, nil
}

func (m *memoryBlobs) keep(info BlobInfo, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return closedBlobs()
	}
	m.blobs[info.ID] = memoryBlob{info, content}
	return nil
}

func (m *memoryBlobs) open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return closedBlobs()
	}
	return nil
}

func (m *memoryBlobs) Open(ctx context.Context, id string) (io.ReadSeekCloser, BlobInfo, error) {
	if err := ended(ctx); err != nil {
		return nil, BlobInfo{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	blob, ok := m.blobs[id]
	switch {
	case m.closed:
		return nil, BlobInfo{}, closedBlobs()
	case !ok:
		return nil, BlobInfo{}, gone(id)
	}
	return memoryReader{bytes.NewReader(blob.content)}, blob.info, nil
}

func (m *memoryBlobs) Collect(ctx context.Context, owner string) (int, error) {
	if err := ended(ctx); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, closedBlobs()
	}
	count := 0
	for id, blob := range m.blobs {
		if blob.info.Owner == owner {
			delete(m.blobs, id)
			m.quota.release(owner, blob.info.Size)
			count++
		}
	}
	return count, nil
}

func (m *memoryBlobs) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.blobs = true, nil
	return nil
}

// ended is the error of a context that has ended, else nil.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fault.From(context.Cause(ctx), fault.Cancelled)
}

// memoryReader hides that a bytes.Reader can write itself to something: that
// would hand out the blob's own memory.
type memoryReader struct{ r *bytes.Reader }

func (m memoryReader) Read(p []byte) (int, error) { return m.r.Read(p) }

func (m memoryReader) Seek(offset int64, whence int) (int64, error) { return m.r.Seek(offset, whence) }

func (memoryReader) Close() error { return nil }
