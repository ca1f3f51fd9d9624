package gates

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

// Manifest takes what a peer offers the way back: credentials in texts, schemas,
// instructions and notes are replaced, before a model reads them, a pin keeps
// them or a status shows them. Names go back to the peer as they are; so an
// operation, a read or an event with a credential in its name is left out, and a
// note says so. It returns m itself if there is nothing to replace.
func (c *Chain) Manifest(m *provider.Manifest) *provider.Manifest {
	if m == nil || c.scrub.Count() == 0 {
		return m
	}
	e := &manifestEditor{scrub: c.scrub, m: *m}
	e.m.Operations = edited(e, m.Operations, "operation", (*manifestEditor).operation)
	e.m.Reads = edited(e, m.Reads, "read", (*manifestEditor).read)
	e.m.Events = edited(e, m.Events, "event", (*manifestEditor).event)
	e.m.Profiles = edited(e, m.Profiles, "profile", (*manifestEditor).version)
	e.m.Extensions = edited(e, m.Extensions, "extension", (*manifestEditor).version)
	e.m.Notes = edited(e, m.Notes, "note", func(e *manifestEditor, note *string) bool { e.text(note); return true })
	e.text(&e.m.Instructions)
	if !e.changed {
		return m
	}
	e.m.Notes = append(slices.Clip(e.m.Notes), e.left...)
	return &e.m
}

// manifestEditor makes a manifest without credentials.
type manifestEditor struct {
	scrub   *secrets.Scrubber
	m       provider.Manifest
	left    []string // notes about what was left out
	changed bool
}

// edited returns the members of a list that can stay, each as edit leaves it. The
// list itself does not change.
func edited[T any](e *manifestEditor, list []T, what string, edit func(*manifestEditor, *T) bool) []T {
	out := make([]T, 0, len(list))
	for _, member := range list {
		if edit(e, &member) {
			out = append(out, member)
		}
	}
	if n := len(list) - len(out); n > 0 {
		e.changed = true
		e.left = append(e.left, fmt.Sprintf("%d of kind %s left out: there is a credential in the name", n, what))
	}
	if list == nil {
		return nil
	}
	return out
}

func (e *manifestEditor) operation(op *provider.Operation) bool {
	e.text(&op.Title)
	e.text(&op.Description)
	e.schema(&op.Args)
	e.schema(&op.Result)
	return e.clean(op.Name)
}

func (e *manifestEditor) read(r *provider.Read) bool {
	e.text(&r.Title)
	e.text(&r.Description)
	e.text(&r.MIMEType)
	e.schema(&r.Args)
	e.schema(&r.Result)
	return e.clean(r.Name) && e.clean(r.URI)
}

func (e *manifestEditor) event(ev *provider.EventType) bool {
	e.text(&ev.Title)
	e.text(&ev.Description)
	e.schema(&ev.Args)
	e.schema(&ev.Payload)
	return e.clean(ev.Name)
}

func (e *manifestEditor) version(v *provider.Version) bool { return e.clean(string(*v)) }

func (e *manifestEditor) clean(name string) bool { return e.scrub.String(name) == name }

func (e *manifestEditor) text(text *string) {
	clean := e.scrub.String(*text)
	e.changed = e.changed || clean != *text
	*text = clean
}

func (e *manifestEditor) schema(document *json.RawMessage) {
	clean := e.scrub.JSON(*document)
	e.changed = e.changed || string(clean) != string(*document)
	*document = clean
}

// Identity takes what a peer says of its incarnation the way back. The same
// identity comes back the same, so that incarnations can be compared.
func (c *Chain) Identity(id provider.Identity) provider.Identity {
	for _, text := range []*string{&id.Surface, &id.Instance, &id.Epoch} {
		*text = c.scrub.String(*text)
	}
	return id
}
