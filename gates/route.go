package gates

import (
	"context"
	"errors"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
)

// openRefs is the gate for references: each must have been issued here, to this
// thread, under this lease, and by what still is there. A call whose references
// belong to another connection goes to that one, if its caller may use it, and
// passes the gates before this one again there.
func openRefs(ctx context.Context, f *flight) error {
	issuer, err := f.issuer()
	if err != nil {
		return err
	}
	if issuer != "" && issuer != f.call.Connection {
		if err := f.reroute(ctx, issuer); err != nil {
			return err
		}
	}
	for i := range f.specials {
		if err := f.openRef(&f.specials[i]); err != nil {
			return err
		}
	}
	return nil
}

// issuer is the one connection that the references belong to, "" without any.
// Blobs may go anywhere in their thread.
func (f *flight) issuer() (connection.Name, error) {
	var issuer connection.Name
	for i := range f.specials {
		s := &f.specials[i]
		if s.secret != "" || s.blob() {
			continue
		}
		name := connection.Name(s.ref.Connection())
		if issuer != "" && name != issuer {
			return "", refInvalid(s.path, fault.New(fault.RefMixed, "references belong to several connections")).
				WithHint("Use references of one connection in one call.")
		}
		issuer = name
	}
	return issuer, nil
}

// reroute makes the call one of the connection that issued its references.
func (f *flight) reroute(ctx context.Context, to connection.Name) error {
	if err := f.genuine(); err != nil {
		return err
	}
	if f.route == nil || f.rerouted {
		return refInvalid("", fault.New(fault.RefUnknown, "the reference belongs to another connection").At(string(to), ""))
	}
	t, err := f.route(ctx, to)
	switch {
	case errors.Is(err, fault.RefUnknown):
		return refInvalid("", err)
	case err != nil:
		return fault.From(err, fault.Unavailable)
	}
	f.rerouted = true
	f.meet(t)
	for _, g := range f.passed {
		if err := f.pass(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// genuine checks that references say where they belong because they were issued
// so: nobody is to choose a connection by writing its name.
func (f *flight) genuine() error {
	for i := range f.specials {
		s := &f.specials[i]
		if s.secret != "" {
			continue
		}
		if err := f.chain.Issued(s.ref, f.call.Thread); err != nil {
			return refInvalid(s.path, err)
		}
	}
	return nil
}

// Issued checks that a reference was issued here and to a thread, by whichever
// connection and whether or not it still holds: an error is ref_invalid, or of
// the store. A server may write what looks like one.
func (c *Chain) Issued(r refs.Ref, thread provider.ThreadID) error {
	if c.keys == nil {
		return fault.New(fault.RefForged, "references are not issued here")
	}
	err := c.keys.Open(r, refs.Scope{Thread: string(thread)})
	if errors.Is(err, fault.RefLease) || errors.Is(err, fault.RefReplaced) {
		return nil
	}
	return err
}

// openRef checks the seal of one reference.
func (f *flight) openRef(s *special) error {
	if s.secret != "" {
		return nil
	}
	if f.chain.keys == nil {
		return refInvalid(s.path, fault.New(fault.RefForged, "references are not issued here"))
	}
	scope := f.scope()
	if s.blob() {
		// The connection that a blob came from binds nobody.
		scope = refs.Scope{Thread: string(f.call.Thread)}
	}
	if err := f.chain.keys.Open(s.ref, scope); err != nil {
		return refInvalid(s.path, err)
	}
	return nil
}

// scope is where the call happens, as references are bound to it.
func (f *flight) scope() refs.Scope {
	return refs.Scope{Connection: string(f.call.Connection), Thread: string(f.call.Thread),
		Lease: f.call.Lease, Instance: f.call.Identity.Instance}
}

func refInvalid(path string, err error) *fault.Error {
	e := &fault.Error{Code: fault.RefInvalid, Err: err}
	if path != "" {
		e.Issues = []fault.Issue{{Path: path, Code: reason(err), Message: "is not good here"}}
	}
	return e
}

// reason is the code that says why a reference was refused.
func reason(err error) fault.Code {
	for _, code := range []fault.Code{fault.RefForged, fault.RefForeign, fault.RefLease, fault.RefReplaced, fault.RefUnknown, fault.RefMixed} {
		if errors.Is(err, code) {
			return code
		}
	}
	return fault.RefInvalid
}
