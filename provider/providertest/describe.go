package providertest

import (
	"context"
	"encoding/json"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

func describeCases() []testCase {
	return []testCase{
		{name: "Manifest/names are unique and schemas are objects", check: manifestValid},
		{name: "Manifest/describes what is declared", check: manifestComplete},
		{name: "Manifest/stays the same while nothing changes", check: manifestStable},
		{name: "Identity/has a stable instance", check: identityStable},
	}
}

// manifest returns c's manifest, or ends the subtest.
func (s *session) manifest(c provider.Conn) *provider.Manifest {
	s.Helper()
	m := c.Manifest()
	if m == nil {
		s.Fatalf("Manifest is nil")
	}
	return m
}

func manifestValid(ctx context.Context, s *session) {
	m := s.manifest(s.connect(ctx))
	ops, reads, events := names{}, names{}, names{}
	for _, o := range m.Operations {
		s.checkName(ops, "operation", o.Name)
		s.checkSchema(o.Name+" arguments", o.Args, true)
		s.checkSchema(o.Name+" result", o.Result, false)
	}
	for _, r := range m.Reads {
		s.checkName(reads, "read", r.Name)
		s.checkSchema(r.Name+" arguments", r.Args, true)
		s.checkSchema(r.Name+" result", r.Result, false)
	}
	for _, e := range m.Events {
		s.checkName(events, "event", e.Name)
		s.checkSchema(e.Name+" arguments", e.Args, true)
		s.checkSchema(e.Name+" payload", e.Payload, false)
	}
}

type names map[string]bool

func (s *session) checkName(seen names, kind, name string) {
	s.Helper()
	switch {
	case name == "":
		s.Errorf("an %s has no name", kind)
	case seen[name]:
		s.Errorf("two %ss have the name %s", kind, fault.Quote(name))
	}
	seen[name] = true
}

// checkSchema checks that a schema can be one: JSON, and an object or, unless
// it is one of arguments, a boolean.
func (s *session) checkSchema(what string, schema json.RawMessage, arguments bool) {
	s.Helper()
	if schema == nil {
		return
	}
	var doc any
	if err := json.Unmarshal(schema, &doc); err != nil {
		s.Errorf("%s: schema is not JSON: %v", what, err)
		return
	}
	object, isObject := doc.(map[string]any)
	_, isBool := doc.(bool)
	switch {
	case !isObject && (arguments || !isBool):
		s.Errorf("%s: schema is no object: %s", what, fault.Quote(string(schema)))
	case arguments && object["type"] != nil && object["type"] != "object":
		s.Errorf("%s: schema has type %v at its root, want object", what, object["type"])
	}
}

func manifestComplete(ctx context.Context, s *session) {
	m := s.manifest(s.connect(ctx))
	for _, call := range []Call{s.cfg.Echo, s.cfg.Slow, s.cfg.Refuse, s.cfg.Once, s.cfg.Task, s.cfg.Ask} {
		if _, ok := m.Operation(call.Op); !ok && call.Op != "" {
			s.Errorf("the manifest lacks the operation %s", fault.Quote(call.Op))
		}
	}
	if s.cfg.Abilities.Reads && len(m.Reads) == 0 {
		s.Errorf("reads are declared, but the manifest has none")
	}
	if s.cfg.Abilities.Events && len(m.Events) == 0 {
		s.Errorf("events are declared, but the manifest has none")
	}
	if o, ok := m.Operation(s.cfg.Once.Op); ok && !o.Facts.Once {
		s.Errorf("%s is given as a once operation, but its facts do not say so", fault.Quote(o.Name))
	}
}

func manifestStable(ctx context.Context, s *session) {
	c := s.connect(ctx)
	before := encoded(s.manifest(c))
	s.works(ctx, c)
	if after := encoded(s.manifest(c)); after != before {
		s.Errorf("the manifest changed:\n%s\n%s", before, after)
	}
}

func identityStable(ctx context.Context, s *session) {
	c := s.connect(ctx)
	before := c.Identity()
	if before.Instance == "" {
		s.Errorf("the identity has no instance")
	}
	if res := s.works(ctx, c); res.Identity != nil && *res.Identity != c.Identity() {
		s.Errorf("a result reports %+v, but the connection says %+v", *res.Identity, c.Identity())
	}
	if after := c.Identity(); after != before {
		s.Errorf("the identity changed from %+v to %+v", before, after)
	}
}
