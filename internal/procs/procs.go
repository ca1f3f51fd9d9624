// Package procs looks at the processes of this machine and ends those that can
// be proven to be the ones meant: the number of a process is used again once
// it has ended, so a number alone proves nothing.
package procs

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Mark is the variable in a child's environment that says whose child it is:
// any text, a colon and the process id of its owner.
const Mark = "BRIDLE_OWNER"

// Place is where process ids mean something. Two Places that are equal see the
// same processes.
type Place struct {
	Host  string `json:"host"`
	Boot  string `json:"boot,omitempty"`  // changes with each start of the system
	Space string `json:"space,omitempty"` // the namespace of process ids
}

// Proc is a process, told apart from any other of the same Place.
type Proc struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`          // when it began, in the system's own words
	Mark  string `json:"mark,omitempty"` // the value of Mark in its environment

	group  int
	parent int
	ended  bool // only its status is left to be read
}

// Self is this process.
func Self() Proc {
	self, ok := Look(os.Getpid())
	if !ok {
		return Proc{PID: os.Getpid()}
	}
	return self
}

// Alive reports whether p has not ended. A process whose status nobody has read
// yet has ended.
func Alive(p Proc) bool {
	now, ok := Look(p.PID)
	return ok && !now.ended && now.Start == p.Start
}

const (
	// grace is how long a process may take to end after SIGTERM.
	grace = 2 * time.Second
	// killed is how long the system may take to end one after SIGKILL.
	killed = 5 * time.Second
	// poll is how often it is looked whether a process still runs; the end of a
	// process that is no child of ours is not reported.
	poll = 20 * time.Millisecond
)

// ErrAlive says that a process did not end although it was killed.
var ErrAlive = errors.New("process does not end even after SIGKILL")

// ErrNotProven says that a process has the number and the beginning of the one
// meant but not its mark. It was left alone.
var ErrNotProven = errors.New("process cannot be proven to be ours")

// End ends p and the group that it leads, SIGTERM first, and returns when they
// are gone. Where p itself has ended, members of its group with its mark go.
func End(ctx context.Context, p Proc) error {
	if err := prove(ctx, p); err != nil {
		return err
	}
	return end(ctx, func() []Proc { return family(p, list()) })
}

// prove returns nil if the process that p means carries its mark, or has ended.
// The environment of one that is about to end cannot be read any more, so what
// has no mark gets the time for that.
func prove(ctx context.Context, p Proc) error {
	limit := time.NewTimer(grace)
	defer limit.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		now, ok := Look(p.PID)
		switch {
		case !ok || now.ended || now.Start != p.Start || p.Mark != "" && now.Mark == p.Mark:
			return nil
		case now.Mark != "":
			return ErrNotProven
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return ErrNotProven
		case <-tick.C:
		}
	}
}

// EndMarked ends the children that an owner, which has ended, left behind: all
// that carry its mark and began after it, except those of a later process
// that got its number, and spared ones with their groups. It returns how many there
// were.
func EndMarked(ctx context.Context, owner Proc, spared ...Proc) (int, error) {
	seen := map[int]bool{}
	err := end(ctx, func() []Proc {
		all := list()
		stays := map[int]bool{}
		for _, p := range spared {
			for _, member := range family(p, all) {
				stays[member.PID] = true
			}
		}
		left := slices.DeleteFunc(orphans(owner, all), func(p Proc) bool { return stays[p.PID] })
		for _, p := range left {
			seen[p.PID] = true
		}
		return left
	})
	return len(seen), err
}

// end signals all that find returns until it returns none.
func end(ctx context.Context, find func() []Proc) error {
	for _, rung := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, killed}} {
		gone, err := endWith(ctx, find, rung.signal, rung.wait)
		if gone || err != nil {
			return err
		}
	}
	return ErrAlive
}

// endWith sends one signal to all, newcomers included, and waits for their end.
func endWith(ctx context.Context, find func() []Proc, s syscall.Signal, wait time.Duration) (gone bool, err error) {
	limit := time.NewTimer(wait)
	defer limit.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	told := map[Proc]bool{}
	for {
		left := find()
		if len(left) == 0 {
			return true, nil
		}
		for _, p := range left {
			if !told[p] {
				told[p] = true
				signal(p, s)
			}
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-limit.C:
			return false, nil
		case <-tick.C:
		}
	}
}

// signal sends s to p unless its number means another process by now. Where the
// system has handles of processes, nothing can come between looking and sending.
func signal(p Proc, s syscall.Signal) {
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return
	}
	defer handle.Release()
	if now, ok := Look(p.PID); ok && now.Start == p.Start {
		handle.Signal(s) // one that ended meanwhile is what we want
	}
}

// family finds p and the members of its group. The group is p's if p leads it
// still, or if a member has the mark: as long as a group has members, its number
// is not used again.
func family(p Proc, all []Proc) (found []Proc) {
	leads, marked := false, false
	for _, q := range all {
		if q.PID == p.PID {
			if q.Start != p.Start {
				return nil
			}
			leads = true
		}
		if q.PID != p.PID && q.group != p.PID {
			continue
		}
		marked = marked || q.Mark == p.Mark
		if !q.ended {
			found = append(found, q)
		}
	}
	if !leads && (!marked || p.Mark == "") {
		return nil
	}
	return found
}

// orphans finds the processes with the mark of owner.
func orphans(owner Proc, all []Proc) (found []Proc) {
	suffix := ":" + strconv.Itoa(owner.PID)
	spared := ancestors(os.Getpid(), all)
	var heir *Proc // has the number now
	for _, q := range all {
		if q.PID == owner.PID && q.Start != owner.Start {
			heir = &q
		}
	}
	for _, q := range all {
		switch {
		case q.ended || !strings.HasSuffix(q.Mark, suffix) || spared[q.PID]:
		case before(q.Start, owner.Start):
		case heir != nil && !before(q.Start, heir.Start):
		case !here(q.PID):
		default:
			found = append(found, q)
		}
	}
	return found
}

// ancestors are pid and those that it descends from.
func ancestors(pid int, all []Proc) map[int]bool {
	parents := make(map[int]int, len(all))
	for _, q := range all {
		parents[q.PID] = q.parent
	}
	line := map[int]bool{}
	for pid > 0 && !line[pid] {
		line[pid] = true
		pid = parents[pid]
	}
	return line
}
