package refs

import "github.com/bridle-dev/bridle/fault"

// Mark says of a place in a value that a ref or a blob belongs there.
type Mark struct {
	// Kind of the ref, [BlobKind] for a blob.
	Kind string
	// Volatile refs go away with the connection's instance.
	Volatile bool
	// MIMETypes that a blob may have, in the order of the schema; none is any.
	MIMETypes []string
	// Sensitive blobs are withheld from models, and taken by such fields only.
	Sensitive bool
}

// Ref reads what a server put where the mark is: its id as a string, or an
// unsealed ref of the mark's kind. Anything else is ref_invalid, a sealed ref
// too: no server has one to give.
func (m Mark) Ref(value any) (Ref, error) {
	if id, ok := value.(string); ok && id != "" {
		return New(m.Kind, id), nil
	}
	r, err := fromTree(value)
	switch {
	case err != nil:
		return Ref{}, fault.New(fault.RefInvalid, "the server gave no id for a ref of kind %s", fault.Quote(m.Kind))
	case r.Sealed():
		return Ref{}, fault.New(fault.RefInvalid, "the server gave a sealed ref for an id of kind %s", fault.Quote(m.Kind))
	case r.kind != m.Kind:
		return Ref{}, fault.New(fault.RefInvalid, "the server gave a ref of kind %s for one of kind %s", fault.Quote(r.kind), fault.Quote(m.Kind))
	}
	return r, nil
}

// merge joins the marks that schemas put on one place. The first says what it
// is. It is volatile if one says so; all of them must say that it is sensitive
// for a field that takes blobs, and one is enough for a blob that is given.
func merge(marks []*Mark, given bool) Mark {
	m := *marks[0]
	for _, other := range marks[1:] {
		m.Volatile = m.Volatile || other.Volatile
		if given {
			m.Sensitive = m.Sensitive || other.Sensitive
		} else {
			m.Sensitive = m.Sensitive && other.Sensitive
		}
	}
	return m
}
