package harness

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// scope holds connections that live and end together: those of the harness, of
// a turn or run, or of the steps of one. A scope sees those of its parent.
type scope struct {
	parent *scope
	own    map[connection.Name]*supervisor
	order  []connection.Name // of own; sorted once, since every turn goes through them
}

// newScope makes the supervisors of a set. Names that the parent attaches
// equally are left to it; checkAttach has refused all others.
func newScope(h *AgentHarness, parent *scope, set connection.Set) *scope {
	s := &scope{parent: parent, own: make(map[connection.Name]*supervisor, len(set))}
	for name, entry := range set {
		if entry.Pool != nil {
			continue
		}
		if parent == nil || parent.find(name) == nil {
			s.own[name] = newSupervisor(h, s, name, entry)
		}
	}
	s.order = slices.Sorted(maps.Keys(s.own))
	return s
}

func (s *scope) start(ctx context.Context) {
	for _, name := range s.names() {
		s.own[name].start(ctx)
	}
}

// stop ends all connections at the same time, those that fail to end included.
func (s *scope) stop(ctx context.Context) error {
	errs := make([]error, len(s.own))
	var wg sync.WaitGroup
	for i, name := range s.names() {
		wg.Go(func() { errs[i] = s.own[name].stop(ctx) })
	}
	wg.Wait()
	return joined(errs...)
}

// settle waits until every connection has been tried once: required ones until
// ctx ends, others until they have had a moment since they were started, so that
// one that hangs is not waited for again and again. It returns what went wrong
// with the required ones, if again is set or they were never ready; others only
// cost those who use them.
func (s *scope) settle(ctx context.Context, again bool) error {
	var errs []error
	for _, name := range s.names() {
		sup := s.own[name]
		if !sup.entry.Required {
			sup.hasMoment(ctx)
			continue
		}
		if err := sup.settled(ctx); err != nil && (again || !sup.wasReady()) {
			errs = append(errs, required(err, name))
		}
	}
	return joined(errs...)
}

// hasMoment waits until the connection has been tried once, or has had a moment for
// it. What came of it is in the status.
func (s *supervisor) hasMoment(ctx context.Context) {
	s.mu.Lock()
	tried, until := s.tried, s.began.Add(patience)
	s.mu.Unlock()
	if tried {
		return
	}
	brief, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	_ = s.settled(brief)
}

// required says that a connection that must be there is not.
func required(err error, name connection.Name) error {
	e := fault.From(placed(err, fault.Unavailable, string(name)), fault.Unavailable)
	if e.Hint != "" {
		return e // it says what to do already
	}
	return (&fault.Error{Code: fault.Unavailable, Connection: string(name), Err: err}).
		WithHint("The connection is required: start its server, or clear Entry.Required.")
}

// names are the scope's own, in order. They must not be changed.
func (s *scope) names() []connection.Name { return s.order }

// find returns the supervisor that attaches a name, here or above.
func (s *scope) find(name connection.Name) *supervisor {
	for ; s != nil; s = s.parent {
		if sup := s.own[name]; sup != nil {
			return sup
		}
	}
	return nil
}

// resolve returns the supervisor behind the name of a connection, which may be
// one of several that a provider makes. Whether it does make that one is known
// only when it is connected.
func (s *scope) resolve(name connection.Name) (*supervisor, error) {
	if sup := s.find(name); sup != nil {
		return sup, nil
	}
	if o := s.link(name); o != nil {
		return o.sup, nil
	}
	for end := len(name) - 1; end > 0; end-- {
		if name[end] != '-' {
			continue
		}
		if sup := s.find(name[:end]); sup != nil {
			return sup, nil
		}
	}
	return nil, unknownConnection(name, s.all())
}

// link returns what is or was connected under a name.
func (s *scope) link(name connection.Name) *offered {
	for _, o := range s.links() {
		if o.link.name == name {
			return &o
		}
	}
	return nil
}

func unknownConnection(name connection.Name, known []connection.Name) error {
	e := fault.New(fault.ConnectionUnknown, "no connection of that name is attached").At(string(name), "")
	if len(known) == 0 {
		return e.WithHint("Add it to Config.Connections.")
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = string(k)
	}
	return e.WithHint("Add it to Config.Connections, or use one of: %s.", fault.Names(names))
}

// all are the names attached here and above, in order.
func (s *scope) all() []connection.Name {
	var names []connection.Name
	for at := s; at != nil; at = at.parent {
		names = append(names, at.names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// links returns what is or was connected here and above, by name. Of several
// under one name the nearest counts.
func (s *scope) links() []offered {
	var links []offered
	seen := map[connection.Name]bool{}
	for at := s; at != nil; at = at.parent {
		for _, name := range at.names() {
			sup := at.own[name]
			for _, l := range sup.snapshot() {
				if !seen[l.name] {
					seen[l.name] = true
					links = append(links, offered{sup, l})
				}
			}
		}
	}
	slices.SortFunc(links, func(a, b offered) int { return cmp.Compare(a.link.name, b.link.name) })
	return links
}

// offered is a link with the settings it is offered under.
type offered struct {
	sup  *supervisor
	link *link
}

// sameEntry reports whether attaching a name again means the same connection:
// the same provider with the same options, under the same settings.
func sameEntry(a, b connection.Entry) bool {
	if !sameProvider(a.Provider, b.Provider) {
		return false
	}
	a.Provider, b.Provider = nil, nil
	a.Policy, b.Policy = settled(a.Policy), settled(b.Policy)
	return reflect.DeepEqual(a, b)
}

// settled makes empty lists of a policy equal to missing ones.
func settled(p connection.Policy) connection.Policy {
	for _, list := range []*[]string{&p.Deny, &p.Approve, &p.Allow} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	return p
}

func sameProvider(a, b provider.Provider) bool {
	if e, ok := a.(provider.Equaler); ok {
		return e.Equal(b)
	}
	ta, tb := reflect.TypeOf(a), reflect.TypeOf(b)
	return ta == tb && ta.Comparable() && reflect.ValueOf(a).Comparable() && a == b
}
