package engine

import "github.com/bridle-dev/bridle/fault"

// CheckKey returns store_failed for a bucket or key that a store must refuse to
// write: empty, or longer than limit bytes.
func CheckKey(bucket, key string, limit int) error {
	for _, part := range []struct{ what, text string }{{"bucket", bucket}, {"key", key}} {
		switch {
		case part.text == "":
			return fault.New(fault.StoreFailed, "put: the %s is empty", part.what)
		case len(part.text) > limit:
			return fault.New(fault.StoreFailed, "put: the %s %s is too long", part.what, fault.Quote(part.text)).
				WithHint("A %s has at most %d bytes.", part.what, limit)
		}
	}
	return nil
}

// Finished is the error of a transaction used after its function returned.
func Finished() error {
	return fault.New(fault.StoreFailed, "the transaction has ended").
		WithHint("Use a Tx only inside the function it was handed to.")
}

// ReadOnly is the error of a write in a View.
func ReadOnly() error {
	return fault.New(fault.StoreFailed, "the transaction is read-only").
		WithHint("Write inside Update, not View.")
}
