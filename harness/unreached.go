package harness

import (
	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/steps"
)

// tellUnreached says which calls an earlier attempt began that this one did not
// come to, as when a step has another name now. They stay pending in the ledger.
func (x *execution) tellUnreached() {
	for _, e := range x.rec.Known() {
		if e.Pending && x.acts(e) {
			x.emit(event.Event{Type: event.Warning, Step: e.Path, Connection: e.Connection, Op: e.Op, Source: e.Source, Key: e.Key,
				Text: "the run ended without coming to a call that an earlier attempt was about to send: it may have happened"})
		}
	}
}

// acts reports whether an entry is of a call that may change something.
func (x *execution) acts(e *ledger.Entry) bool {
	return e.Op != "" && e.Kind != string(steps.KindWait) && !x.catalog(e).IsRead(e.Op)
}

// catalog is what the connection of an entry offers now.
func (x *execution) catalog(e *ledger.Entry) *gates.Catalog {
	if sup, err := x.source(e); err == nil && sup != nil {
		for _, l := range sup.snapshot() {
			if l.name == sup.as(connection.Name(e.Connection)) {
				catalog, _ := l.current()
				return catalog
			}
		}
	}
	return gates.NewCatalog(connection.Name(e.Connection), &provider.Manifest{})
}
