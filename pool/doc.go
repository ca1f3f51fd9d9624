// Package pool leases connections that are made on demand: a fresh browser, a
// device, a server with state of its own.
//
// A lease is one instance for one execution, or one parallel path of it. It is
// made when it is asked for, and ended when it is given back; it is never handed
// on. The harness is who calls this package; applications configure pools as
// connection.Pool and see them as connection.PoolStatus.
//
//	owner, err := pool.Register(ctx, pool.OwnerConfig{Store: db})
//	err = owner.Reap(ctx)                      // what a crash left behind
//	browsers, err := pool.New(pool.Config{Name: "browsers", Owner: owner, Provider: p, Max: 4})
//	lease, err := browsers.Acquire(ctx, pool.Request{Execution: "suite-42", Path: "/login"})
//	if err := lease.Check(ctx); err != nil { … } // before each use
//	res, err := lease.Conn.Call(ctx, call)
//	err = lease.Release(ctx)
//
// # Records
//
// Everything a successor must know is in the store before it is needed: a record
// of the lease before anything is made, its processes as soon as they run, its
// identity once it is there. The number of records is what Max bounds, over all
// processes that share the store; within a process, requests are served in the
// order in which they came.
//
// # Fences
//
// A holder renews its leases every [RenewEvery]. A record that nobody renewed
// for [ReclaimAfter], by the clock of whoever watches it, is reclaimed: its fence
// grows, its instance is ended, and then its room is free. Clocks of different
// processes are never compared. A holder that cannot renew stops first, after
// [HoldFor]: Done closes, the instance is ended, and [Lease.Check] refuses. One
// that slept through all of this finds its fence outgrown. What is checked and
// then written belongs in one transaction: [Lease.CheckIn].
//
// # Ends
//
// An instance is ended by releasing its connection. Where the process that had
// it is gone, it is taken back by its provider (provider.Reattacher) and then
// released, and its processes are ended. A process counts as ours only if its
// number, its beginning and the mark in its environment are the recorded ones:
// BRIDLE_OWNER, any text with a colon and the number of its owner's process.
// Anything else is left alone, and the event of the reclaim says so, as it does of
// processes on another machine. What has neither processes nor a Reattacher is
// taken to end with the process that had it.
//
// [Owner.Reap] does the same at once for owners that are proven dead, and finds
// children by their mark even if they were never recorded (on Linux). Leases of pools
// that are not there any more wait for them: [Owner.Strays].
//
// # Errors
//
// pool_timeout for a wait that ran out, args_invalid for a setup that does not
// fit, connection_unavailable for a lease that is lost, closed for one that was
// given back and for a closed pool, store_failed for what could not be recorded:
// then nothing is handed out. Errors of the provider keep their code.
//
// # Concurrency
//
// Everything may be called concurrently. A provider that does not return is
// waited for within bounds; what it was about to make counts until it is known
// to be gone, or reclaimed.
package pool
