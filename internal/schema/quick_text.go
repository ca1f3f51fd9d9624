package schema

import (
	"bytes"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
)

// Check is Parse and [Schema.Validate] of a value of which no tree is needed.
func (s *Schema) Check(value []byte, depth int) []fault.Issue {
	if s.quick != nil && s.quick.fitsText(value, depth) {
		return nil
	}
	tree, issue := Parse(value, depth)
	if issue != nil {
		return []fault.Issue{*issue}
	}
	return s.Validate(tree)
}

// fitsText reports whether a text can be parsed, and the tree fits. It may be false
// for an odd one that does.
func (q *quick) fitsText(value []byte, depth int) bool {
	if brackets(value) > depth {
		return false
	}
	r := newReader(value, depth, lenient)
	defer r.free()
	return r.fits(q) && r.end() == nil
}

// fits reads one value. It recurses as deeply as there are brackets.
func (r *reader) fits(q *quick) bool {
	if q == nil {
		q = &quick{}
	}
	switch kind := r.dec.PeekKind(); kind {
	case '{':
		return q.allows("object") && r.objectFits(q)
	case '[':
		return q.allows("array") && r.arrayFits(q)
	case '0':
		return r.numberFits(q)
	case '"':
		return q.allows("string") && r.dec.SkipValue() == nil
	case 'n':
		return q.allows("null") && r.dec.SkipValue() == nil
	default:
		return q.allows("boolean") && r.dec.SkipValue() == nil // or an error
	}
}

func (r *reader) numberFits(q *quick) bool {
	digits, err := r.dec.ReadValue()
	if err != nil {
		return false
	}
	n, problem := number(string(digits))
	return problem == "" && (q.allows("number") || q.allows("integer") && isWhole(string(n)))
}

func (r *reader) arrayFits(q *quick) bool {
	if _, err := r.dec.ReadToken(); err != nil {
		return false
	}
	for r.dec.PeekKind() != ']' {
		if !r.fits(q.items) {
			return false
		}
	}
	return r.closing() == nil
}

// objectFits has members that are given twice fit both times.
func (r *reader) objectFits(q *quick) bool {
	if _, err := r.dec.ReadToken(); err != nil || len(q.required) > 64 {
		return false
	}
	missing := uint64(1)<<len(q.required) - 1 // a bit for each
	for r.dec.PeekKind() != '}' {
		name, err := r.dec.ReadValue()
		if err != nil || bytes.IndexByte(name, '\\') >= 0 || !utf8.Valid(name) {
			return false
		}
		name = name[1 : len(name)-1]
		for i, required := range q.required {
			if required == string(name) {
				missing &^= 1 << i
			}
		}
		one, known := q.members[string(name)]
		if !known {
			one = q.others
		}
		if !known && q.closed || !r.fits(one) {
			return false
		}
	}
	return missing == 0 && r.closing() == nil
}
