package triggers

import "context"

// claim is that of an inbox on an event of a source: while the inbox does not
// listen, nobody is told that such an event is stored, whoever else listens. Waits
// of steps come and go beside a trigger, and an event that only they have seen
// would be lost to a trigger that is about to be back, or whose process ends. The
// methods of a nil claim do nothing, those of others are safe for concurrent use.
type claim struct {
	source *Source
	event  string
	live   int  // subscriptions under it; guarded by Source.mu
	over   bool // for good; guarded by Source.mu
}

// claimKey is under what a claim goes along with a call of Listen: between an inbox
// and a source there are the gates, which know nothing of it.
type claimKey struct{}

func (c *claim) with(ctx context.Context) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, claimKey{}, c)
}

// claimOf is the claim on a source that came along; nil if none did.
func (s *Source) claimOf(ctx context.Context) *claim {
	if c, ok := ctx.Value(claimKey{}).(*claim); ok && c.source == s {
		return c
	}
	return nil
}

// hold lays the claim.
func (c *claim) hold() {
	if c == nil {
		return
	}
	c.source.mu.Lock()
	defer c.source.mu.Unlock()
	if !c.over {
		c.source.claims[c] = struct{}{}
	}
}

// waive lets others have events alone until hold is called.
func (c *claim) waive() {
	if c == nil {
		return
	}
	c.source.mu.Lock()
	defer c.source.mu.Unlock()
	delete(c.source.claims, c)
}

// end waives the claim for good.
func (c *claim) end() {
	if c == nil {
		return
	}
	c.source.mu.Lock()
	defer c.source.mu.Unlock()
	c.over = true
	delete(c.source.claims, c)
}

// count changes how many subscriptions are live under the claim. The caller holds
// Source.mu.
func (c *claim) count(n int) {
	if c != nil {
		c.live += n
	}
}

// missed reports whether somebody who is to have an event does not listen. The
// caller holds mu.
func (s *Source) missed(event string) bool {
	for c := range s.claims {
		if c.event == event && c.live == 0 {
			return true
		}
	}
	return false
}
