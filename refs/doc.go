// Package refs seals references to what a connection returned, keeps blobs, and
// gives models short names for both.
//
// A ref points at something that lives on a connection: an element of a page, a
// chat thread, a stored blob. The server knows it by an id. Whoever passes the
// id back, a model, a step or a document, must not be able to make one up, to
// use the one of somebody else, or to use it after the thing went away. So what
// leaves the library towards models and steps is a sealed ref, and only what is
// opened goes back to a server:
//
//	keys, err := refs.OpenKeys(ctx, db)
//	scope := refs.Scope{Connection: "app", Thread: "t1", Instance: "page-7"}
//	sealed, err := keys.Seal(refs.New("element", "e12"), scope, true)
//	…
//	if err := keys.Open(sealed, scope); err != nil { … } // a reason, by code
//	send(sealed.ID())
//
// # What a seal is
//
// A seal is a tag: HMAC-SHA256 under a key that only the store holds. The ref is
// authenticated, not encrypted: everybody who sees it can read its id, kind,
// connection and thread, and nobody without the key can change one of them. Do
// not put into an id what must stay secret.
//
// The tag covers kind, id, connection, thread, lease, the instance for volatile
// kinds, the facts of a blob, and the id of the key. The epoch of a connection
// is left out: a hot reload keeps refs. Fields are told apart by their lengths,
// so no two different refs have the same input.
//
// # What is refused
//
// [Keys.Open] fails with ref_invalid, and a second code, found by errors.Is as
// well, says why:
//
//	ref_forged              no seal, a changed field, a foreign or retired key
//	ref_foreign_thread      sealed for another thread
//	ref_unknown_connection  sealed for another connection than the scope's
//	ref_other_lease         sealed under another lease of a pool
//	ref_replaced            volatile, and its instance is gone
//
// In this order: what a forged ref says about itself is never a reason. Decoding
// refuses before that what is no ref at all: unknown, repeated or empty fields,
// wrong types, another spelling of a tag, more than [MaxSize] bytes.
//
// # Keys
//
// Keys live in the store, so refs stay valid over a restart, and processes that
// share a store open each other's. [Keys.Rotate] makes a new key, which seals
// from then on; older ones go on opening until [Keys.Retire] drops them.
//
// # In JSON
//
// A ref is an object with the one member $ref, whether it is sealed or not; its
// encoding is canonical in the sense of RFC 8785. [Find] finds the sealed ones
// anywhere in a value. An object without a seal is data: a JSON Schema passed as
// an argument has $ref members too. [ParseMarks] reads in a schema where a
// result has ids to seal, and which fields take refs or blobs.
//
// # Aliases
//
// A sealed ref is too long for a model to copy. [Aliases] gives each ref of a
// thread a short name such as element-3, kept in the store.
//
// # Blobs
//
// A [Blobs] keeps what is too large or not fit to be passed along: screenshots,
// downloads, whole results. A blob has a random id, belongs to the execution
// that made it, and is handed out as a ref of kind blob, see [BlobInfo.Ref].
// The three implementations pass refs/refstest.
//
// # Concurrency
//
// Everything here may be used by any number of goroutines, except the readers
// that Blobs.Open returns. The package starts no goroutines.
package refs
