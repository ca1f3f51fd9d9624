package harness

import (
	"context"
	"slices"
	"sync"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/steps"
)

// offer is what a model step may call. It never changes once made.
type offer struct {
	tools map[string]tool // by the name the model uses
	specs []model.Tool    // in a stable order
	known int             // how many credentials the specs were looked through for
}

// add appends tools whose names are not there yet.
func (o *offer) add(tools ...tool) {
	for _, t := range tools {
		if _, there := o.tools[t.spec.Name]; !there {
			o.tools[t.spec.Name] = t
			o.specs = append(o.specs, t.spec)
		}
	}
}

// offer returns the tools of a model step. Private connections that it picks from
// are leased for it.
func (r *runtime) offer(ctx context.Context, s *steps.CallModel) (*offer, error) {
	x := r.x
	if s.NoTools {
		return &offer{}, nil
	}
	x.tellMissing()
	if s.Tools == nil {
		set := x.toolset(x.h.config.Tools, nil)
		x.tellClashes(set)
		return &set.whole, nil
	}
	if err := checkToolNames(s.Tools, "the step"); err != nil {
		return nil, err
	}
	leased, err := r.leasePicks(ctx, s)
	if err != nil {
		return nil, err
	}
	set := x.toolset(s.Tools, leased)
	x.tellClashes(set)
	o := &offer{tools: map[string]tool{}, known: set.whole.known}
	o.add(set.funcs...)
	var errs []error
	for _, t := range s.Tools {
		if p, ok := pickOf(t); ok {
			picked, err := x.pick(p, set)
			errs = append(errs, err)
			o.add(picked...)
		}
	}
	return o, joined(errs...)
}

// leasePicks leases the private connections that a model step picks from.
func (r *runtime) leasePicks(ctx context.Context, s *steps.CallModel) ([]offered, error) {
	var leased []offered
	for _, t := range s.Tools {
		p, ok := pickOf(t)
		if !ok || !r.x.h.private(p) {
			continue
		}
		sup, name, err := r.connect(ctx, p.Name(), p.Handle())
		if err != nil {
			return nil, err
		}
		l, err := sup.await(ctx, name)
		if err != nil {
			return nil, err
		}
		if o := (offered{sup, l}); !slices.Contains(leased, o) {
			leased = append(leased, o)
		}
	}
	return leased, nil
}

// private reports whether a pick is from a connection of a pool.
func (h *AgentHarness) private(p connection.Pick) bool {
	_, attaches := p.Entry()
	from := p.Name()
	if p.Handle() != nil {
		from = p.Handle().From()
	}
	return !attaches && h.pools[from] != nil
}

// toolset is everything that model steps of an execution could see, with its
// names, beside one list of Go tools.
type toolset struct {
	links    []offered
	private  []offered        // of the links
	catalogs []*gates.Catalog // of the links, as the execution pins them
	funcs    []tool
	names    map[operation]string
	clashes  []operation
	whole    offer // to a step that lists nothing: all but what only steps attach
}

// toolsets keeps the latest tool set of turns that attach nothing, since one
// turn after another sees the same.
type toolsets struct {
	mu     sync.Mutex
	latest *toolset
}

// toolset returns the tool set of this execution beside the Go tools of a list,
// and private connections.
func (x *execution) toolset(list []steps.Tool, leased []offered) *toolset {
	set := &toolset{links: append(x.models.links(), leased...), private: leased, whole: offer{tools: map[string]tool{}, known: x.h.scrubber.Count()}}
	for _, o := range set.links {
		set.catalogs = append(set.catalogs, x.pin(o.link))
	}
	for _, t := range list {
		if f, ok := t.(*steps.FuncTool); ok {
			set.funcs = append(set.funcs, x.funcTool(f))
		}
	}
	if len(x.scope.own)+len(x.models.own)+len(leased) > 0 {
		return x.complete(set)
	}
	kept := &x.h.toolsets
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if !kept.latest.same(set) {
		kept.latest = x.complete(set)
	}
	return kept.latest
}

// same reports whether two tool sets come to the same.
func (s *toolset) same(other *toolset) bool {
	return s != nil && s.whole.known == other.whole.known && slices.Equal(s.links, other.links) && slices.Equal(s.catalogs, other.catalogs) &&
		slices.EqualFunc(s.funcs, other.funcs, func(a, b tool) bool { return a.fn == b.fn })
}

// complete names the operations and makes the whole offer. Every operation
// that any model step could see is named, so that picking some renames none.
func (x *execution) complete(set *toolset) *toolset {
	taken := map[string]bool{}
	for _, f := range set.funcs {
		taken[f.spec.Name] = true
	}
	var ops []operation
	for i, o := range set.links {
		if o.sup.entry.Expose != connection.ExposeNone {
			ops = append(ops, operationsOf(o.link.name, set.catalogs[i].Operations())...)
		}
	}
	set.names = nameTools(ops, taken)
	for _, o := range ops {
		if want := o.wire(); set.names[o] != want && len(want) <= maxToolName {
			set.clashes = append(set.clashes, o)
		}
	}
	set.whole.add(set.funcs...)
	for _, o := range set.links {
		if o.sup.entry.Expose != connection.ExposeNone && x.models.own[o.sup.name] != o.sup {
			set.whole.add(x.toolsOf(o, set.names, nil)...)
		}
	}
	return set
}

// tellClashes says once in an execution which operations do not have the name
// one would expect.
func (x *execution) tellClashes(set *toolset) {
	for _, o := range set.clashes {
		if name := set.names[o]; x.first("clash " + name) {
			x.emit(event.Event{Type: event.Warning, Connection: string(o.connection), Op: o.op,
				Text: "another tool is named " + o.wire() + " as well: models see this one as " + name})
		}
	}
}

// missing are the connections that models could see if they had been reached.
func (x *execution) missing() []*supervisor {
	var list []*supervisor
	for _, name := range x.models.all() {
		if sup := x.models.find(name); sup.entry.Expose != connection.ExposeNone && len(sup.snapshot()) == 0 {
			list = append(list, sup)
		}
	}
	return list
}

// tellMissing says once in an execution which connections a model has to do
// without.
func (x *execution) tellMissing() {
	for _, sup := range x.missing() {
		if x.first("missing " + string(sup.name)) {
			x.emit(event.Event{Type: event.Warning, Connection: string(sup.name),
				Text: "models have to do without this connection", Err: sup.unavailable(sup.name)})
		}
	}
}

func (x *execution) funcTool(f *steps.FuncTool) tool {
	s := x.h.scrubber
	return tool{fn: f, spec: model.Tool{Name: f.Name(), Description: s.String(f.Description()), Args: s.JSON(f.Args())}}
}
