// Package ledger is the durable record of executions: what was about to be
// done, and what came of it. From it a run that died is resumed without doing
// again what it did.
//
// Applications read it, to list executions and look into them:
//
//	l, err := ledger.Open(db)
//	for x, err := range l.Executions(ctx) {
//		fmt.Println(x.ID, x.State, x.Err)
//	}
//
// A harness writes it.
//
// # Entries
//
// Each step of an execution has an entry under its path. A call, and a wait, is
// pending from before anything is sent until its result is known: whoever finds
// it pending after a crash knows that the peer may have acted. Pending entries
// are never dropped. What a step came to, an output or a failure, settles its
// entry; a settled entry never changes.
//
// # Restart
//
// An execution that was running when its process died is still marked as
// running. [Ledger.Resume] takes it up: settled entries replay, pending ones say
// what is not known. A failure at the very end, after which nothing else was
// recorded, does not replay: the step is tried again under the same key. A turn
// that cannot be taken up, because what it began with is gone, is kept with its
// messages ([Ledger.Keep]).
//
// # Errors
//
// EXECUTION_EXISTS for an id that is in use, STORE_UNSUPPORTED for a store that
// a newer version wrote, store_failed for a record that cannot be read, and the
// store's own errors. A write that fails has not happened, and a [Log] goes on as
// if nobody had asked for it.
//
// # Concurrency
//
// A [Ledger] and a [Log] may be used concurrently. One run at a time writes an
// execution: once it was resumed, the Log of the run before fails with
// EXECUTION_EXISTS, so that nothing more is sent from there.
package ledger
