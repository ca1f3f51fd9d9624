package inmemory

import (
	"cmp"
	"fmt"
	"sync"
)

// family is what a thing shares with those it provisioned: one journal, and
// one row of instance numbers.
type family struct {
	mu        sync.Mutex
	members   []*Provider // guarded by mu; the first, then the provisioned ones
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

// under returns p and all that it, or what it provisioned, provisioned.
func (f *family) under(p *Provider) []*Provider {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*Provider
	for _, m := range f.members {
		if m.within(p) {
			out = append(out, m)
		}
	}
	return out
}

// within reports whether p is top or was provisioned under it.
func (p *Provider) within(top *Provider) bool {
	for t := p; t != nil; t = t.parent {
		if t == top {
			return true
		}
	}
	return false
}
