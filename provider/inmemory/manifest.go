package inmemory

import (
	"bytes"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/provider"
)

// manifest describes o. Everything is sorted by name; defs are the definitions
// that Connect was handed.
func (o Options) manifest(defs []*provider.Profile) *provider.Manifest {
	m := &provider.Manifest{Determinism: o.Determinism}
	for _, v := range o.Profiles {
		m.Profiles = append(m.Profiles, provider.Version(v))
	}
	for _, v := range o.Extensions {
		m.Extensions = append(m.Extensions, provider.Version(v))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Operations)) {
		m.Operations = append(m.Operations, o.describe(name, defs))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Reads)) {
		r := o.ReadInfo[name]
		r.Name, r.Args, r.Result = name, bytes.Clone(r.Args), bytes.Clone(r.Result)
		m.Reads = append(m.Reads, r)
	}
	events := o.events(defs)
	for _, name := range slices.Sorted(maps.Keys(events)) {
		m.Events = append(m.Events, events[name])
	}
	return m
}

func (o Options) describe(name string, defs []*provider.Profile) provider.Operation {
	op := o.Operations[name].Operation
	op.Name, op.Args, op.Result = name, bytes.Clone(op.Args), bytes.Clone(op.Result)
	if op.Facts != (provider.Facts{}) {
		return op
	}
	for _, def := range o.declared(defs) {
		for _, d := range def.Operations {
			if d.Name == name {
				op.Facts = d.Facts
			}
		}
	}
	return op
}

func (o Options) events(defs []*provider.Profile) map[string]provider.EventType {
	all := map[string]provider.EventType{}
	for _, def := range o.declared(defs) {
		for _, e := range def.Events {
			all[e.Name] = e
		}
	}
	maps.Copy(all, o.Events)
	for name, e := range all {
		e.Name, e.Args, e.Payload = name, bytes.Clone(e.Args), bytes.Clone(e.Payload)
		all[name] = e
	}
	return all
}

// declared returns the definitions of exactly the declared versions.
func (o Options) declared(defs []*provider.Profile) []*provider.Profile {
	var out []*provider.Profile
	for _, def := range defs {
		if slices.Contains(o.Profiles, def.Name+"@"+def.Version) {
			out = append(out, def)
		}
	}
	return out
}
