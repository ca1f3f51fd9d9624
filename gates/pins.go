package gates

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// Kind tells what of a connection a definition is of. A name may be used by one
// of each.
type Kind string

// The kinds. They are persisted; the list is append-only.
const (
	KindOperation Kind = "operation"
	KindRead      Kind = "read"
	KindEvent     Kind = "event"
)

// maxPinsSeen bounds what is remembered in memory; beyond it, everything is
// looked up once more.
const maxPinsSeen = 100_000

// Pins hold definitions to what they were when they were first seen or approved:
// a server that changes one behind the back of whoever approved it, be it only
// the text a model reads, finds that one refused and the others not. Pins are
// kept in a store, in the buckets "pins" and "pins/changed", and so is what
// changed until somebody decides.
//
// A nil Pins refuses nothing. All methods may be called concurrently. Reads are
// described as operations, as hooks see them.
type Pins struct {
	store store.Store

	mu   sync.RWMutex
	seen map[pinKey]seenDefinition // found to be good; guarded by mu
}

// pinKey names a definition.
type pinKey struct {
	connection connection.Name
	kind       Kind
	name       string
}

// seenDefinition is one that needs no second look as long as it stays the same.
type seenDefinition struct {
	op     provider.Operation
	pinned bool // there is a pin, and it is this
}

// OpenPins returns the pins in s. Several may be open on one store: what one of
// them pins another may notice only when its own definition changes.
func OpenPins(s store.Store) *Pins {
	return &Pins{store: s, seen: map[pinKey]seenDefinition{}}
}

// Change is a definition that is not the pinned one, and is refused until it is
// accepted, pinned, or back to what it was.
type Change struct {
	// Connection, Kind and Name say whose definition it is.
	Connection connection.Name
	Kind       Kind
	Name       string
	// Pinned and Found are the digests of both, as DigestOperation makes them.
	Pinned string
	Found  string
	// Seen is when the change was first noticed.
	Seen time.Time
	// Differences are the places where they differ, the first 50.
	Differences []Difference
}

// String describes the change in lines, for a person.
func (c *Change) String() string {
	lines := []string{fmt.Sprintf("%s %s of connection %s is not what it was:", c.Kind, shownText(c.Name, maxPointer), c.Connection)}
	for _, d := range c.Differences {
		lines = append(lines, "  "+d.String())
	}
	return strings.Join(lines, "\n")
}

// fault tells a caller, who may be a model, where the definition changed, but
// not what it says now: that has not been approved.
func (c *Change) fault() error {
	err := fault.New(fault.OpChanged, "its definition is not the one that was pinned").At(string(c.Connection), shownText(c.Name, maxPointer))
	for _, d := range c.Differences {
		err.Issues = append(err.Issues, fault.Issue{Path: d.Path, Message: d.word()})
	}
	return err.WithHint("Nothing was sent. Someone must look at Pins.Changed and decide with Pins.Accept.")
}

// Check compares the definition of an operation, a read or an event with its pin.
// Without a pin it passes, and is pinned if firstSeen says that what is seen
// first is what holds. One that differs is op_changed, with an Issue for each
// place; see [Pins.Changed] for what it says. Errors of the store are as they are:
// what cannot be compared does not pass. Under another name it is another
// definition.
//
// op must not change after the call. Checking the same definition again is a
// look into a map.
func (p *Pins) Check(ctx context.Context, name connection.Name, kind Kind, op provider.Operation, firstSeen bool) error {
	if p == nil || p.good(pinKey{name, kind, op.Name}, &op, firstSeen) {
		return nil
	}
	change, err := p.compare(ctx, newDefinition(name, kind, op), firstSeen)
	switch {
	case err != nil:
		return err
	case change != nil:
		return change.fault()
	}
	return nil
}

// good reports whether a definition was found to be good before.
func (p *Pins) good(key pinKey, op *provider.Operation, firstSeen bool) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	seen, ok := p.seen[key]
	return ok && (seen.pinned || !firstSeen) && sameDefinition(&seen.op, op)
}

func (p *Pins) remember(key pinKey, seen seenDefinition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) >= maxPinsSeen {
		clear(p.seen)
	}
	p.seen[key] = seen
}

func (p *Pins) forget(key pinKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, key)
}

func (p *Pins) compare(ctx context.Context, d *definition, firstSeen bool) (*Change, error) {
	changes, err := p.compareAll(ctx, []*definition{d}, firstSeen)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	return &changes[0], nil
}

// Observe is Check for all that a manifest describes, in few transactions: what
// a harness does when it sees a manifest for the first time and whenever it
// changed, before a model sees it. It returns the changes among them, in the
// manifest's order; an error is the store's. Of several definitions with one name
// the first counts, as in a [Catalog].
func (p *Pins) Observe(ctx context.Context, name connection.Name, m *provider.Manifest, firstSeen bool) ([]Change, error) {
	if p == nil {
		return nil, nil
	}
	var unknown []*definition
	met := map[pinKey]bool{}
	for kind, op := range definitions(m) {
		key := pinKey{name, kind, op.Name}
		if !met[key] && !p.good(key, &op, firstSeen) {
			unknown = append(unknown, newDefinition(name, kind, op))
		}
		met[key] = true
	}
	return p.compareAll(ctx, unknown, firstSeen)
}

// definitions yields all of a manifest in the form in which calls check them.
func definitions(m *provider.Manifest) iter.Seq2[Kind, provider.Operation] {
	return func(yield func(Kind, provider.Operation) bool) {
		for _, op := range m.Operations {
			if !yield(KindOperation, op) {
				return
			}
		}
		for _, r := range m.Reads {
			if !yield(KindRead, readOperation(r)) {
				return
			}
		}
		for _, e := range m.Events {
			if !yield(KindEvent, eventOperation(e)) {
				return
			}
		}
	}
}

// eventOperation describes an event in the form that hooks see.
func eventOperation(e provider.EventType) provider.Operation {
	args := e.Args
	if args == nil {
		args = []byte(noArgs)
	}
	return provider.Operation{Name: e.Name, Title: e.Title, Description: e.Description, Args: args}
}

// Pin makes a definition the one that holds, whatever was pinned before.
//
// A name of more than 32 KiB cannot be pinned and never passes a check.
func (p *Pins) Pin(ctx context.Context, name connection.Name, kind Kind, op provider.Operation) error {
	d := newDefinition(name, kind, op)
	if len(op.Name) > maxPinName {
		return d.unpinnable().fault()
	}
	err := p.store.Update(ctx, func(tx store.Tx) error { return d.pin(tx) })
	if err == nil {
		p.remember(d.key, seenDefinition{op, true})
	}
	return err
}

// Accept pins the definition that a change found. If another one has been found
// since, that was not what was looked at, and the error is op_changed. Accepting
// twice is no error.
func (p *Pins) Accept(ctx context.Context, c Change) error {
	key := pinKey{c.Connection, c.Kind, c.Name}
	err := p.store.Update(ctx, func(tx store.Tx) error { return acceptChange(tx, key, c.Found) })
	if err == nil {
		p.forget(key)
	}
	return err
}

// Changed yields the changes that nobody has decided about, ordered by
// connection, kind and name. An error is the last.
func (p *Pins) Changed(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for from := ""; ; {
			page, next, err := p.changedPage(ctx, from)
			if err != nil {
				yield(Change{}, err)
				return
			}
			for _, c := range page {
				if !yield(c, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			from = next
		}
	}
}
