package connection

import "github.com/bridle-dev/bridle/fault"

// Pick is what one model step is offered of a connection. It is a tool of
// package steps. Build it with Tools or Attach.
type Pick struct {
	name   Name
	ops    []string
	entry  *Entry
	handle *Handle
}

// Tools picks the operations that match at least one of the patterns, or all
// without a pattern, of a connection that the harness or the turn attaches. No
// tool is renamed by being picked.
func Tools(name Name, ops ...string) Pick {
	return Pick{name: name, ops: append([]string(nil), ops...)}
}

// Attach brings a connection for the steps that list it, and picks from it as
// Tools does. If the name is attached already, provider and options must be the
// same: then it is that connection.
func Attach(name Name, entry Entry, ops ...string) Pick {
	p := Tools(name, ops...)
	p.entry = &entry
	return p
}

// ToolID names the pick in errors.
func (p Pick) ToolID() string { return "connection " + string(p.name) }

// Name is the connection picked from.
func (p Pick) Name() Name { return p.name }

// Ops returns the patterns; none means every operation.
func (p Pick) Ops() []string { return append([]string(nil), p.ops...) }

// Handle is what the pick was made from; nil if it was made from a name.
func (p Pick) Handle() *Handle { return p.handle }

// Entry returns what the pick attaches, if it does.
func (p Pick) Entry() (Entry, bool) {
	if p.entry == nil {
		return Entry{}, false
	}
	return *p.entry, true
}

// Check returns CONNECTION_INVALID for a malformed name or an empty pattern.
func (p Pick) Check() error {
	if err := p.name.Check(); err != nil {
		return err
	}
	if p.handle != nil {
		if err := p.handle.Check(); err != nil {
			return err
		}
	}
	for _, op := range p.ops {
		if op == "" {
			return fault.New(fault.ConnectionInvalid, "empty pattern in a pick of tools").
				At(string(p.name), "").WithHint("Name an operation, or give no pattern for all of them.")
		}
	}
	return nil
}
