package refs

import (
	"context"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
)

// BlobInfo describes a blob.
type BlobInfo struct {
	ID        string    // random and unguessable; set by Put
	MIMEType  string    // as whoever made the blob says, "" if unknown
	Size      int64     // in bytes; set by Put
	Sensitive bool      // no model may see it, and only fields that say so take it
	Owner     string    // the execution it is collected with
	Thread    string    // the thread it belongs to
	Created   time.Time // in UTC; set by Put
}

// Ref returns an unsealed ref of kind [BlobKind] with the facts that a model or
// a step may know of a blob.
func (b BlobInfo) Ref() Ref {
	return Ref{kind: BlobKind, id: b.ID, mimeType: b.MIMEType, size: b.Size, sensitive: b.Sensitive}
}

// Blobs keeps blobs. All methods may be used concurrently.
//
// Failures are blob_unavailable for a blob that is not there, that is too large
// or whose description is wrong; closed after Close; cancelled or timeout when
// the context ended; and store_failed when something could not be read or
// written. Nobody retries. Implementations pass refs/refstest.
type Blobs interface {
	// Put reads content to its end and keeps it under a new id. It takes from
	// info what its fields do not say are set here; owner and thread are
	// required. Content over a cap is refused without being read to its end.
	// If Put fails, for whatever reason, or the process ends in it, there is no
	// blob, and the cap is free again. An error of content is wrapped. Put looks
	// at ctx between reads; content that blocks is the caller's to end.
	Put(ctx context.Context, info BlobInfo, content io.Reader) (BlobInfo, error)
	// Open returns the content of a blob, from its beginning, and its
	// description. The caller closes the reader, which is not for concurrent
	// use, and may fail once ctx has ended. When the blob is collected
	// meanwhile, the reader reads on or fails with blob_unavailable.
	Open(ctx context.Context, id string) (io.ReadSeekCloser, BlobInfo, error)
	// Collect removes the blobs of an owner and returns how many there were. A
	// Put of that owner in progress may succeed or be blob_unavailable.
	Collect(ctx context.Context, owner string) (int, error)
	// Close releases what the implementation holds, though not a store that was
	// handed to it. Closing twice is no error.
	Close() error
}

// BlobOptions bound what is kept. Nil means the defaults.
type BlobOptions struct {
	// MaxBlob is the size of the largest blob in bytes. Zero means 64 MiB;
	// negative is no bound.
	MaxBlob int64
	// MaxOwner is how many bytes the blobs of one owner may have together. Zero
	// means 1 GiB; negative is no bound.
	MaxOwner int64
}

const (
	defaultMaxBlob  = 64 << 20
	defaultMaxOwner = 1 << 30
	// maxMIMEType is what RFC 6838, section 4.2, allows: two names of 127
	// characters. Parameters have to fit as well.
	maxMIMEType = 255
)

// caps returns options without defaults: negative is no bound.
func (o *BlobOptions) caps() BlobOptions {
	caps := BlobOptions{}
	if o != nil {
		caps = *o
	}
	if caps.MaxBlob == 0 {
		caps.MaxBlob = defaultMaxBlob
	}
	if caps.MaxOwner == 0 {
		caps.MaxOwner = defaultMaxOwner
	}
	return caps
}

// checkBlob refuses a blob that has grown to size.
func (o BlobOptions) checkBlob(size int64) error {
	if o.MaxBlob >= 0 && size > o.MaxBlob {
		return unavailable("it has more than %d bytes", o.MaxBlob).WithHint("Keep less, or raise BlobOptions.MaxBlob.")
	}
	return nil
}

// checkOwner refuses what makes the blobs of an owner grow to size.
func (o BlobOptions) checkOwner(owner string, size int64) error {
	if o.MaxOwner >= 0 && size > o.MaxOwner {
		return unavailable("the blobs of %s have more than %d bytes", fault.Quote(owner), o.MaxOwner).
			WithHint("Keep less, or raise BlobOptions.MaxOwner.")
	}
	return nil
}

func unavailable(format string, args ...any) *fault.Error {
	return fault.New(fault.BlobUnavailable, "blob: "+format, args...)
}

// gone is the error for an id under which there is nothing.
func gone(id string) *fault.Error {
	return unavailable("there is none with the id %s", fault.Quote(id)).
		WithHint("It was collected with the execution that made it; make it again.")
}

func closedBlobs() *fault.Error { return fault.New(fault.Closed, "the blobs are closed") }

// described returns what is kept of a description, or says what is wrong with it.
func described(info BlobInfo, id string) (BlobInfo, error) {
	switch {
	case info.Owner == "" || info.Thread == "":
		return BlobInfo{}, unavailable("it has no owner or no thread")
	case len(info.MIMEType) > maxMIMEType:
		return BlobInfo{}, unavailable("its MIME type has more than %d bytes", maxMIMEType)
	}
	for _, text := range []string{info.Owner, info.Thread, info.MIMEType} {
		if !utf8.ValidString(text) {
			return BlobInfo{}, unavailable("%s is not valid UTF-8", fault.Quote(text))
		}
	}
	info.ID, info.Size, info.Created = id, 0, time.Now().UTC()
	return info, nil
}

// maxEmptyReads ends content that yields neither bytes nor an error.
const maxEmptyReads = 100

// fill reads until buf is full or content ends, looking at ctx between reads.
func fill(ctx context.Context, content io.Reader, buf []byte) (n int, ended bool, err error) {
	empty := 0
	for n < len(buf) {
		if ctx.Err() != nil {
			return n, false, fault.From(context.Cause(ctx), fault.Cancelled)
		}
		m, err := content.Read(buf[n:])
		n += m
		if empty++; m > 0 {
			empty = 0
		}
		switch {
		case errors.Is(err, io.EOF):
			return n, true, nil
		case err != nil:
			return n, false, unavailable("its content cannot be read: %w", err)
		case empty > maxEmptyReads:
			return n, false, unavailable("its content cannot be read: %w", io.ErrNoProgress)
		}
	}
	return n, false, nil
}
