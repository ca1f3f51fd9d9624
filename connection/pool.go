package connection

import "time"

// PoolStatus is what a pool holds at one moment, in the words of
// [database/sql.DBStats]. The counters grow from when the pool was made.
type PoolStatus struct {
	MaxOpen int // how many connections may exist at once, in all processes together
	Open    int // how many do; those of other processes as last seen, and those kept a while for a run that failed
	InUse   int // how many of these are leased in this process
	Idle    int // always 0: a connection is never handed on

	WaitCount    int64         // requests that had to wait for one to be given back
	WaitDuration time.Duration // how long they waited, all together
	Reclaimed    int64         // leases taken from holders that were gone
}
