package mcp

import "sync"

// hold stops the clocks of a request while a person thinks, until the returned
// function is called.
func (x *exchange) hold() (release func()) {
	x.mu.Lock()
	clocks := x.clocks
	x.mu.Unlock()
	for _, c := range clocks {
		c.hold()
	}
	return func() {
		for _, c := range clocks {
			c.release()
		}
	}
}

// atEnd has f called once nobody waits for x any more, at once if that is so
// already. f must return quickly.
func (x *exchange) atEnd(f func(answered bool)) {
	x.mu.Lock()
	gone := x.gone
	if !gone {
		x.ends = append(x.ends, f)
	}
	x.mu.Unlock()
	if gone {
		f(x.hasAnswer())
	}
}

// end is called when nobody waits for x any more.
func (x *exchange) end() {
	x.mu.Lock()
	x.gone = true
	ends := x.ends
	x.ends = nil
	x.mu.Unlock()
	for _, f := range ends {
		f(x.hasAnswer())
	}
}

// hasAnswer reports whether the server answered in time.
func (x *exchange) hasAnswer() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.verdict == nil && (x.result != nil || x.refusal != nil)
}

// waiting returns the requests that wait for an answer.
func (t *tap) waiting() []*exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*exchange, 0, len(t.byToken))
	for _, x := range t.byToken {
		all = append(all, x)
	}
	return all
}

// countdown calls f when it reached zero and any of the steps mattered.
type countdown struct {
	f func()

	mu      sync.Mutex
	left    int
	matters bool
}

func newCountdown(n int, f func()) *countdown { return &countdown{f: f, left: n} }

func (c *countdown) down(matters bool) {
	c.mu.Lock()
	c.left--
	c.matters = c.matters || matters
	over := c.left == 0 && c.matters
	c.mu.Unlock()
	if over {
		c.f()
	}
}
