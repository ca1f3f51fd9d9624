package refs

import "time"

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
