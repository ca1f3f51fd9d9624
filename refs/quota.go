package refs

import "sync"

// quota counts the bytes of each owner, for blobs that are kept by one process.
type quota struct {
	caps BlobOptions
	mu   sync.Mutex
	used map[string]int64 // guarded by mu
}

func newQuota(opts *BlobOptions) *quota {
	return &quota{caps: opts.caps(), used: map[string]int64{}}
}

// grow takes n more bytes for a blob that has size already, or refuses.
func (q *quota) grow(owner string, size, n int64) error {
	if err := q.caps.checkBlob(size + n); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.caps.checkOwner(owner, q.used[owner]+n); err != nil {
		return err
	}
	q.used[owner] += n
	return nil
}

// release gives bytes back.
func (q *quota) release(owner string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used[owner] -= n; q.used[owner] <= 0 {
		delete(q.used, owner)
	}
}

// known reports whether anything is counted for an owner.
func (q *quota) known(owner string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.used[owner]
	return ok
}

// begin sets what an owner had before this process, unless it is known.
func (q *quota) begin(owner string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.used[owner]; !ok {
		q.used[owner] = n
	}
}
