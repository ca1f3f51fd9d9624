package ledger

import (
	"context"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/store"
)

// LeasePath is where the lease of a private connection is recorded: under the
// line of steps it belongs to, which is the path of a parallel path or of a
// spawned child, or "" for the execution itself.
func LeasePath(line, connection string) string { return line + "/@" + connection }

// leaseLine is the line that a lease belongs to.
func leaseLine(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// Lease records that a line of steps has a private connection: Path, Connection,
// Lease, Identity and Output of e, which says how to get another. Again for the
// same path it replaces what was there.
func (g *Log) Lease(ctx context.Context, e Entry) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	g.seq++
	e.Kind, e.Seq, e.Started = KindLease, g.seq, g.now()
	e.Ended = e.Started
	g.mu.Unlock()
	return g.update(ctx, func(tx store.Tx) error { return put(tx, entriesBucket, entryKey(g.id, e.Path), e) })
}

// Leases are the private connections that earlier attempts recorded, of lines
// that have not ended: what has ended gave its own back. It is asked before
// Replay.
func (g *Log) Leases() []*Entry {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.leases), func(e *Entry) bool { return g.over(leaseLine(e.Path)) })
}

// over reports whether a line of steps has ended: its step is settled, or a step
// around it. The caller holds mu.
func (g *Log) over(line string) bool {
	for at := above(line + "/"); at != ""; at = above(at) {
		if e := g.known[at]; e != nil && !e.Pending && e.Kind != KindRound {
			return true
		}
	}
	for path, e := range g.known {
		if !e.Pending && strings.HasPrefix(path, line+"/") && !strings.Contains(path[len(line)+1:], "/") {
			return true
		}
	}
	return false
}
