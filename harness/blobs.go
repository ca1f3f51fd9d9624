package harness

import (
	"context"
	"io"
	"sync"

	"github.com/bridle-dev/bridle/refs"
)

// keptOwners is how many executions keep their blobs. A thread can go on with
// what earlier turns of it left, but not for ever.
const keptOwners = 1_000

// ownedBlobs collects the blobs of executions that are long over.
type ownedBlobs struct {
	refs.Blobs

	mu     sync.Mutex
	known  map[string]bool
	owners []string // oldest first
}

func newOwnedBlobs(b refs.Blobs) *ownedBlobs {
	return &ownedBlobs{Blobs: b, known: map[string]bool{}}
}

// Put implements refs.Blobs.
func (b *ownedBlobs) Put(ctx context.Context, info refs.BlobInfo, content io.Reader) (refs.BlobInfo, error) {
	if old := b.note(info.Owner); old != "" {
		if _, err := b.Collect(ctx, old); err != nil {
			return refs.BlobInfo{}, err
		}
	}
	return b.Blobs.Put(ctx, info, content)
}

// note remembers an owner and returns one whose time is over, if there is one.
func (b *ownedBlobs) note(owner string) (over string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[owner] {
		return ""
	}
	b.known[owner] = true
	b.owners = append(b.owners, owner)
	if len(b.owners) <= keptOwners {
		return ""
	}
	over, b.owners = b.owners[0], b.owners[1:]
	delete(b.known, over)
	return over
}
