package schema

import (
	"reflect"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// quick is a schema that says no more than most do: which types, which members and
// which items there are. That a value fits it is told while its text is read. What is
// wrong with one that does not, the validator says.
type quick struct {
	types    []string          // nil for all
	required []string          // members that must be there
	members  map[string]*quick // what is known of them
	others   *quick            // what members may be that are not known; nil for anything
	closed   bool              // there must be no such members
	items    *quick            // nil for anything
}

// quickOf returns nil for a schema that says more.
func quickOf(s *jsonschema.Schema) *quick {
	if s.Bool != nil && *s.Bool {
		return &quick{}
	}
	types, ok := typesOf(s)
	if !ok || saysMore(*s) {
		return nil
	}
	q := &quick{types: types, required: s.Required, members: make(map[string]*quick, len(s.Properties))}
	for name, one := range s.Properties {
		if q.members[name] = quickOf(one); q.members[name] == nil {
			return nil
		}
	}
	switch others := s.AdditionalProperties.(type) {
	case bool:
		q.closed = !others
	case *jsonschema.Schema:
		if q.others = quickOf(others); q.others == nil {
			return nil
		}
	}
	if s.Items2020 != nil {
		if q.items = quickOf(s.Items2020); q.items == nil {
			return nil
		}
	}
	return q
}

// typesOf returns what a schema says about types, there or as takeTypes has left it.
func typesOf(s *jsonschema.Schema) (want []string, ok bool) {
	if s.Types != nil {
		want = s.Types.ToStrings()
	}
	for _, one := range s.Extensions {
		taken, known := one.(types)
		if !known || want != nil {
			return nil, false
		}
		want = taken.want
	}
	return want, true
}

// saysMore reports whether a schema has a keyword that quick does not know, among
// them those that the validator will have some day.
func saysMore(s jsonschema.Schema) bool {
	s.Types, s.Extensions, s.Required, s.Properties, s.AdditionalProperties, s.Items2020 = nil, nil, nil, nil, nil, nil
	s.DraftVersion, s.Location = 0, ""
	s.Title, s.Description, s.Comment, s.Default, s.Examples = "", "", "", nil, nil
	s.ReadOnly, s.WriteOnly, s.Deprecated = false, false, false
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() && !v.Field(i).IsZero() {
			return true
		}
	}
	return false
}

func (q *quick) allows(name string) bool { return q.types == nil || slices.Contains(q.types, name) }
