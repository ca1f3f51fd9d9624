package inmemory

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// family is what a thing shares with those it provisioned: one journal, and
// one row of instance numbers.
type family struct {
	mu        sync.Mutex
	members   []*Provider // guarded by mu; the first, then the provisioned ones that are not released
	calls     []*entry    // guarded by mu; in order of arrival
	instances int         // guarded by mu
}

// instance makes an instance that no other member has or had. It is the same
// in each run of a program, so that recorded runs and goldens stay comparable.
func (f *family) instance(surface string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instances++
	return fmt.Sprintf("%s-%d", cmp.Or(surface, "inmemory"), f.instances)
}

func (f *family) add(p *Provider) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = append(f.members, p)
}

func (f *family) remove(p *Provider) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = slices.DeleteFunc(f.members, func(m *Provider) bool { return m == p })
}

// under returns p and all that it, or what it provisioned, provisioned.
func (f *family) under(p *Provider) []*Provider {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*Provider
	for _, m := range f.members {
		if m.line.within(p.line) {
			out = append(out, m)
		}
	}
	return out
}

// line is the descent of a thing, which the journal keeps when the thing is gone.
type line struct{ above *line }

// within reports whether l is top or was provisioned under it.
func (l *line) within(top *line) bool {
	for ; l != nil; l = l.above {
		if l == top {
			return true
		}
	}
	return false
}
