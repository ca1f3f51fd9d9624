package refs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

const (
	blobBucket  = "refs/blobs"        // blobRecord by id
	chunkBucket = "refs/blobs/chunks" // content by id and number
	ownerBucket = "refs/blobs/owners" // ownedRecord by owner and id
	usedBucket  = "refs/blobs/used"   // bytes by owner
	// chunkSize is well under the 1 MiB that every engine takes, and still few
	// transactions for a large blob.
	chunkSize = 512 << 10
	// cleanupLimit bounds the removal of what a failed Put left: it must also
	// happen when the caller's context is what ended.
	cleanupLimit = 10 * time.Second
)

// StoreBlobs keeps blobs in a store, in chunks of 512 KiB: a smaller blob is one
// transaction. What a process left that died in a Put is removed when its owner
// is collected. Caps hold for all processes on the store together. Close leaves
// the store open.
func StoreBlobs(s store.Store, opts *BlobOptions) Blobs {
	return &storeBlobs{store: s, caps: opts.caps()}
}

type storeBlobs struct {
	store  store.Store
	caps   BlobOptions
	closed atomic.Bool
}

// blobRecord is what makes a blob exist.
type blobRecord struct {
	MIMEType  string    `json:"type,omitempty"`
	Size      int64     `json:"size"`
	Sensitive bool      `json:"sensitive,omitempty"`
	Owner     string    `json:"owner"`
	Thread    string    `json:"thread"`
	Created   time.Time `json:"created"`
}

// ownedRecord is what an owner has of a blob: all of it, once it is complete.
type ownedRecord struct {
	Chunks   int   `json:"chunks"`
	Size     int64 `json:"size"`
	Complete bool  `json:"complete"`
}

func newRecord(info BlobInfo) blobRecord {
	return blobRecord{info.MIMEType, info.Size, info.Sensitive, info.Owner, info.Thread, info.Created}
}

func (r blobRecord) info(id string) BlobInfo {
	return BlobInfo{id, r.MIMEType, r.Size, r.Sensitive, r.Owner, r.Thread, r.Created}
}

func ownerKey(owner string) string { return digest(sha256.Sum256([]byte(owner))) }

func chunkKey(id string, n int) string { return fmt.Sprintf("%s/%08x", id, n) }

func (b *storeBlobs) Put(ctx context.Context, info BlobInfo, content io.Reader) (BlobInfo, error) {
	if b.closed.Load() {
		return BlobInfo{}, closedBlobs()
	}
	info, err := described(info, rand.Text())
	if err != nil {
		return BlobInfo{}, err
	}
	complete := false
	chunks := 0
	defer func() {
		if !complete && chunks > 0 {
			b.discard(ctx, info)
		}
	}()
	buf := make([]byte, chunkSize)
	for !complete {
		n, ended, err := fill(ctx, content, buf)
		if err != nil {
			return BlobInfo{}, err
		}
		info.Size += int64(n)
		if err := b.append(ctx, info, chunks, buf[:n], ended); err != nil {
			return BlobInfo{}, err
		}
		chunks++
		complete = ended
	}
	return info, nil
}

// append stores the next chunk of a blob, whose size includes it, and after the
// last one what makes it exist.
func (b *storeBlobs) append(ctx context.Context, info BlobInfo, chunks int, chunk []byte, last bool) error {
	if err := b.caps.checkBlob(info.Size); err != nil {
		return err
	}
	if b.closed.Load() {
		return closedBlobs()
	}
	return b.store.Update(ctx, func(tx store.Tx) error {
		owned, key := ownedRecord{}, ownerKey(info.Owner)+"/"+info.ID
		if _, err := load(tx, ownerBucket, key, &owned); err != nil {
			return err
		}
		if owned.Chunks != chunks {
			return unavailable("it was collected while it was written")
		}
		if err := b.use(tx, info.Owner, int64(len(chunk))); err != nil {
			return err
		}
		if err := tx.Put(chunkBucket, chunkKey(info.ID, chunks), chunk); err != nil {
			return err
		}
		if err := put(tx, ownerBucket, key, ownedRecord{chunks + 1, info.Size, last}); err != nil || !last {
			return err
		}
		return put(tx, blobBucket, info.ID, newRecord(info))
	})
}

// use counts n bytes more for an owner, or fewer.
func (b *storeBlobs) use(tx store.Tx, owner string, n int64) error {
	value, _, err := tx.Get(usedBucket, ownerKey(owner))
	if err != nil {
		return err
	}
	used, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil && len(value) > 0 {
		return fault.New(fault.StoreFailed, "the size of the blobs of %s is damaged", fault.Quote(owner))
	}
	used += n
	switch {
	case used <= 0:
		return tx.Delete(usedBucket, ownerKey(owner))
	case n > 0:
		if err := b.caps.checkOwner(owner, used); err != nil {
			return err
		}
	}
	return tx.Put(usedBucket, ownerKey(owner), []byte(strconv.FormatInt(used, 10)))
}

// discard removes what there is of a blob that will not be complete. If that
// fails, the chunks stay until their owner is collected.
func (b *storeBlobs) discard(ctx context.Context, info BlobInfo) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
	defer cancel()
	_ = b.store.Update(ctx, func(tx store.Tx) error {
		_, err := b.remove(tx, info.Owner, info.ID)
		return err
	})
}

// remove deletes what an owner has of a blob.
func (b *storeBlobs) remove(tx store.Tx, owner, id string) (complete bool, err error) {
	var owned ownedRecord
	key := ownerKey(owner) + "/" + id
	if ok, err := load(tx, ownerBucket, key, &owned); err != nil || !ok {
		return false, err
	}
	for n := range owned.Chunks {
		if err := tx.Delete(chunkBucket, chunkKey(id, n)); err != nil {
			return false, err
		}
	}
	if err := tx.Delete(blobBucket, id); err != nil {
		return false, err
	}
	if err := b.use(tx, owner, -owned.Size); err != nil {
		return false, err
	}
	return owned.Complete, tx.Delete(ownerBucket, key)
}

func (b *storeBlobs) Collect(ctx context.Context, owner string) (int, error) {
	count := 0
	for {
		if b.closed.Load() {
			return count, closedBlobs()
		}
		complete, more := false, false
		err := b.store.Update(ctx, func(tx store.Tx) (err error) {
			complete, more, err = b.collectOne(tx, owner)
			return err
		})
		if err != nil || !more {
			return count, err
		}
		if complete {
			count++
		}
	}
}

// collectOne removes one blob of an owner, since all at once may be too much
// for one transaction.
func (b *storeBlobs) collectOne(tx store.Tx, owner string) (complete, more bool, err error) {
	prefix := ownerKey(owner) + "/"
	for record, err := range tx.Scan(ownerBucket, store.Range{Prefix: prefix, Limit: 1}) {
		if err != nil {
			return false, false, err
		}
		complete, err = b.remove(tx, owner, record.Key[len(prefix):])
		return complete, true, err
	}
	return false, false, nil
}

func (b *storeBlobs) Open(ctx context.Context, id string) (io.ReadSeekCloser, BlobInfo, error) {
	if b.closed.Load() {
		return nil, BlobInfo{}, closedBlobs()
	}
	var record blobRecord
	found := false
	err := b.store.View(ctx, func(tx store.Tx) (err error) {
		found, err = load(tx, blobBucket, id, &record)
		return err
	})
	switch {
	case err != nil:
		return nil, BlobInfo{}, err
	case !found:
		return nil, BlobInfo{}, gone(id)
	}
	read := func(n int) ([]byte, error) { return b.chunk(ctx, id, n) }
	return &chunkReader{read: read, size: record.Size, at: -1}, record.info(id), nil
}

func (b *storeBlobs) chunk(ctx context.Context, id string, n int) (chunk []byte, err error) {
	found := false
	err = b.store.View(ctx, func(tx store.Tx) (err error) {
		chunk, found, err = tx.Get(chunkBucket, chunkKey(id, n))
		return err
	})
	if err == nil && !found {
		err = gone(id)
	}
	return chunk, err
}

func (b *storeBlobs) Close() error {
	b.closed.Store(true)
	return nil
}

// load reads a record that is JSON.
func load(tx store.Tx, bucket, key string, record any) (bool, error) {
	value, ok, err := tx.Get(bucket, key)
	if err != nil || !ok {
		return false, err
	}
	if err := json.Unmarshal(value, record); err != nil {
		return false, fault.New(fault.StoreFailed, "the record %s of %s is damaged", fault.Quote(key), bucket)
	}
	return true, nil
}
