package refs

import (
	"io"

	"github.com/bridle-dev/bridle/fault"
)

// chunkReader reads content that is kept in chunks, one of them in memory.
type chunkReader struct {
	read   func(n int) ([]byte, error)
	size   int64
	offset int64
	at     int // which chunk is here; -1 is none
	chunk  []byte
	closed bool
}

func (r *chunkReader) Read(p []byte) (int, error) {
	switch {
	case r.closed:
		return 0, fault.New(fault.Closed, "the reader of the blob is closed")
	case len(p) == 0:
		return 0, nil
	case r.offset >= r.size:
		return 0, io.EOF
	}
	if n := int(r.offset / chunkSize); n != r.at {
		chunk, err := r.read(n)
		if err != nil {
			return 0, err
		}
		r.at, r.chunk = n, chunk
	}
	start := r.offset % chunkSize
	if start >= int64(len(r.chunk)) {
		return 0, fault.New(fault.StoreFailed, "a part of the blob is shorter than it was")
	}
	n := copy(p, r.chunk[start:])
	r.offset += int64(n)
	return n, nil
}

func (r *chunkReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 || whence < io.SeekStart || whence > io.SeekEnd {
		return 0, unavailable("there is nothing at %d of %d", offset, whence)
	}
	r.offset = offset
	return offset, nil
}

func (r *chunkReader) Close() error {
	r.closed, r.chunk, r.at = true, nil, -1
	return nil
}
