package harness

import (
	"errors"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/steps"
)

// uses are what a tree of steps needs from the harness.
type uses struct {
	wishes []*wish        // connections that steps call, wait on or pick from
	attach connection.Set // what model steps attach
	err    error          // mistakes found while collecting
}

// usesOf walks a tree that steps.Check has accepted, or collects what it can.
func (h *AgentHarness) usesOf(s steps.Step) *uses {
	u := &uses{attach: connection.Set{}}
	steps.Visit(s, steps.Visitor{
		Call:  func(c *steps.Call) { u.err = errors.Join(u.err, inStep(c.ID, h.use(u, c.Connection, c.Handle))) },
		Wait:  func(w *steps.Wait) { u.err = errors.Join(u.err, inStep(w.ID, h.use(u, w.Connection, w.Handle))) },
		Model: func(m *steps.CallModel) { u.err = errors.Join(u.err, h.useModel(u, m)) },
	})
	return u
}

// use notes that a step uses a connection.
func (h *AgentHarness) use(u *uses, name connection.Name, handle *connection.Handle) error {
	w, err := h.wish(name, handle)
	if err != nil {
		return err
	}
	for _, other := range u.wishes {
		if other.name == w.name && !other.same(w) {
			return otherHandle(w.name)
		}
	}
	u.wishes = append(u.wishes, w)
	return nil
}

// useModel collects what a model step needs and finds the mistakes that
// steps.Check cannot know of.
func (h *AgentHarness) useModel(u *uses, m *steps.CallModel) error {
	var errs []error
	if m.Model == nil && h.config.Model == nil {
		errs = append(errs, inStep(m.ID, fault.New(fault.MissingModel, "step has no model").
			WithHint("Set CallModel.Model or Config.Model.")))
	}
	errs = append(errs, inStep(m.ID, checkToolNames(m.Tools, "the step")))
	for _, t := range m.Tools {
		p, ok := pickOf(t)
		if !ok || p.Check() != nil {
			continue
		}
		entry, attaches := p.Entry()
		if !attaches {
			errs = append(errs, inStep(m.ID, h.use(u, p.Name(), p.Handle())))
			continue
		}
		errs = append(errs, inStep(m.ID, u.add(p.Name(), entry)))
	}
	return joined(errs...)
}

// add takes an entry that a model step attaches.
func (u *uses) add(name connection.Name, entry connection.Entry) error {
	if entry.Pool != nil {
		return poolBelow(name)
	}
	if have, ok := u.attach[name]; ok && !sameEntry(have, entry) {
		return taken(name, "another step")
	}
	if err := checkEntry(name, entry); err != nil {
		return err
	}
	u.attach[name] = entry
	return nil
}

// checkAttach finds mistakes in the connections of a turn or run, and names
// that its steps use and nobody attaches.
func (h *AgentHarness) checkAttach(set connection.Set, u *uses) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(set)) {
		entry := set[name]
		if entry.Pool != nil {
			errs = append(errs, poolBelow(name))
			continue
		}
		if err := checkEntry(name, entry); err != nil {
			errs = append(errs, err)
			continue
		}
		if have, ok := h.config.Connections[name]; ok && !sameEntry(have, entry) {
			errs = append(errs, taken(name, "the harness"))
		}
	}
	errs = append(errs, h.checkStepEntries(u, set))
	for _, w := range u.wishes {
		if _, there := set[w.name]; there && w.pool != nil {
			errs = append(errs, taken(w.name, "the turn"))
		}
		errs = append(errs, h.checkName(w.from, set))
	}
	return joined(errs...)
}

// checkStepEntries compares what steps attach with what is attached above them.
func (h *AgentHarness) checkStepEntries(u *uses, set connection.Set) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(u.attach)) {
		if have, ok := h.config.Connections[name]; ok && !sameEntry(have, u.attach[name]) {
			errs = append(errs, taken(name, "the harness"))
		}
		if have, ok := set[name]; ok && !sameEntry(have, u.attach[name]) {
			errs = append(errs, taken(name, "the turn"))
		}
	}
	return joined(errs...)
}

// checkName returns CONNECTION_UNKNOWN for a name that cannot become known. A
// provider may make several connections, named <name>-<id> once it is dialled.
func (h *AgentHarness) checkName(name connection.Name, set connection.Set) error {
	if err := name.Check(); err != nil {
		return err
	}
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '-' {
			continue
		}
		_, ours := h.config.Connections[name[:i]]
		if _, theirs := set[name[:i]]; ours || theirs {
			return nil
		}
	}
	known := slices.Collect(maps.Keys(h.config.Connections))
	known = slices.AppendSeq(known, maps.Keys(set))
	slices.Sort(known)
	return unknownConnection(name, slices.Compact(known))
}
