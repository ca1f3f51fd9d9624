package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
)

// ready installs the links and says so, in one: nobody uses a connection before
// it was announced, or reads of one that the status does not show.
func (s *supervisor) ready(links []*link) {
	s.set(func() {
		s.announce(s.links, links)
		s.links, s.state, s.err, s.tried, s.attempts = links, connection.Ready, nil, true, 0
		s.met = true
	})
}

// announce tells of connections, and how they differ from those before.
func (s *supervisor) announce(before, links []*link) {
	for _, l := range links {
		catalog, identity := l.current()
		s.h.emit(event.Event{Type: event.ConnectionReady, Connection: string(l.name),
			Data: map[string]any{"operations": len(catalog.Operations()), "identity": identity}})
		for _, note := range catalog.Notes() {
			s.warn(l.name, note)
		}
		for _, note := range s.remarks(catalog) {
			s.warn(l.name, note)
		}
		if i := slices.IndexFunc(before, func(b *link) bool { return b.name == l.name }); i >= 0 {
			s.compare(before[i], l)
		}
	}
}

// remarks are what seems wrong with the policy, now that one can tell.
func (s *supervisor) remarks(c *gates.Catalog) []string {
	var notes []string
	for _, pattern := range gates.Unmatched(s.entry.Policy, c) {
		notes = append(notes, "policy pattern "+fault.Quote(pattern)+" matches no operation and no read")
	}
	notes = append(notes, s.secretRemarks(c)...)
	return append(notes, s.auditRemarks(c)...)
}

// secretRemarks are grants of secrets to models that come to nothing.
func (s *supervisor) secretRemarks(c *gates.Catalog) []string {
	granted := s.entry.ModelSecrets
	if len(granted) > 0 && s.h.config.Secrets == nil {
		return []string{"Entry.ModelSecrets lets models use secrets, and Config.Secrets has none"}
	}
	var notes []string
	for _, ref := range slices.Sorted(maps.Keys(granted)) {
		at := strings.LastIndexByte(granted[ref], '.')
		op, field := granted[ref][:at], granted[ref][at+1:]
		def, ok := c.Operation(op)
		switch {
		case !ok:
			notes = append(notes, "Entry.ModelSecrets names no operation that is there: "+granted[ref])
		case !hasField(def.Args, field):
			notes = append(notes, "Entry.ModelSecrets names a field that the operation does not have: "+granted[ref])
		}
	}
	return notes
}

// hasField reports whether a schema of arguments may have a field at its top. A
// schema that names none, or refers elsewhere, may have any.
func hasField(args json.RawMessage, field string) bool {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(args, &s) != nil || len(s.Properties) == 0 {
		return true
	}
	return s.Properties[field] != nil
}

// auditRemarks are patterns of what must be recorded that name this connection
// and none of its operations: nothing would be required.
func (s *supervisor) auditRemarks(c *gates.Catalog) []string {
	var notes []string
	for _, pattern := range s.h.config.Audit.RequiredFor {
		op, ours := strings.CutPrefix(pattern, string(cmp.Or(s.pool, s.name))+".")
		if ours && len(gates.Unmatched(connection.Policy{Approve: []string{op}}, c)) > 0 {
			notes = append(notes, "audit pattern "+fault.Quote(pattern)+" matches no operation and no read")
		}
	}
	return notes
}

func (s *supervisor) warn(name connection.Name, text string) {
	s.h.emit(event.Event{Type: event.Warning, Connection: string(name), Text: text})
}

// hold compares what a connection offers with its pins, where the entry wants
// that, and tells which definitions changed.
func (s *supervisor) hold(ctx context.Context, l *link) {
	if !s.entry.Pin {
		return
	}
	catalog, _ := l.current()
	changes, err := s.h.pins.Observe(ctx, l.name, catalog.Manifest(), true)
	if err != nil {
		s.warn(l.name, "definitions could not be compared with their pins: "+err.Error())
	}
	for _, c := range changes {
		s.warn(l.name, c.String())
	}
}

// compare announces how a reconnected link differs from the one it follows.
func (s *supervisor) compare(old, now *link) {
	oldCatalog, was := old.current()
	catalog, is := now.current()
	if was != is {
		s.replaced(now.name, was, is)
	}
	if !reflect.DeepEqual(oldCatalog.Manifest(), catalog.Manifest()) {
		s.manifestChanged(now.name, catalog)
	}
}

func (s *supervisor) replaced(name connection.Name, was, now provider.Identity) {
	s.h.emit(event.Event{Type: event.ConnectionReplaced, Connection: string(name),
		Data: map[string]any{"was": was, "now": now}})
}

func (s *supervisor) manifestChanged(name connection.Name, c *gates.Catalog) {
	s.h.emit(event.Event{Type: event.ConnectionManifestChanged, Connection: string(name),
		Data: map[string]any{"operations": len(c.Operations())}})
}

// changeOf takes over what a watcher reports.
func (s *supervisor) changeOf(l *link, c provider.Change) {
	switch c {
	case provider.ManifestChanged:
		if catalog, changed := l.refresh(); changed && s.announced(l) {
			s.hold(s.h.life, l)
			s.manifestChanged(l.name, catalog)
		}
	case provider.IdentityChanged:
		s.seen(l, l.conn.Identity())
	}
}

// seen compares an identity that came with a result against the known one.
func (s *supervisor) seen(l *link, now provider.Identity) {
	now = s.h.chain.Identity(now)
	if was := l.know(now); was != now && s.announced(l) {
		s.replaced(l.name, was, now)
	}
}

// announced reports whether people have heard of the link: what changes before
// is told along with it.
func (s *supervisor) announced(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.links, l)
}
