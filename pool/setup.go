package pool

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
	"github.com/go-json-experiment/json/jsontext"
)

// setupDepth is how deeply a setup may be nested, as arguments of a call.
const setupDepth = 64

// setups checks what requests bring against what the host configured.
type setups struct {
	host     json.RawMessage
	values   map[string]any // the fields of host, which no request may set
	profiles []profileSetup
}

// profileSetup is what one profile says about setups.
type profileSetup struct {
	name     string
	hostOnly []string
	schema   *schema.Schema  // nil if anything goes
	fields   map[string]bool // those that the schema speaks of
}

// newSetups reads the host's fields and the profiles' schemas.
func newSetups(host any, profiles []*provider.Profile) (*setups, error) {
	s := &setups{}
	if host != nil {
		raw, err := json.Marshal(host)
		if err != nil {
			return nil, fault.New(fault.ConnectionInvalid, "setup of the pool has no JSON form: %w", err)
		}
		canonical, values, issue := object(raw)
		if issue != nil {
			return nil, fault.New(fault.ConnectionInvalid, "setup of the pool %s", issue.Message).
				WithHint("Set Pool.Setup to a struct or a map of the host's fields.")
		}
		s.host, s.values = canonical, values
	}
	for _, p := range profiles {
		if err := s.add(p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *setups) add(p *provider.Profile) error {
	one := profileSetup{name: p.Name, hostOnly: slices.Clone(p.HostOnly), fields: map[string]bool{}}
	if len(p.Setup) > 0 {
		compiled, err := schema.Compile(p.Setup)
		if err != nil {
			return fault.New(fault.ConnectionInvalid, "setup schema of profile %s: %w", fault.Quote(p.Name), err).
				WithHint("Correct Profile.Setup.")
		}
		one.schema = compiled
		var declares struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if json.Unmarshal(p.Setup, &declares) == nil { // a boolean schema declares none
			for field := range declares.Properties {
				one.fields[field] = true
			}
		}
	}
	s.profiles = append(s.profiles, one)
	return nil
}

// check returns the canonical form of a request's setup. Fields that only the
// host may set are refused; the rest must fit the profile of that name, or every
// profile with "", together with the host's fields that its schema speaks of.
func (s *setups) check(raw json.RawMessage, profile string) (json.RawMessage, error) {
	canonical, values, issue := object(raw)
	if issue != nil {
		return nil, refuse(*issue)
	}
	var issues []fault.Issue
	for _, field := range slices.Sorted(maps.Keys(values)) {
		if s.hostOnly(field, profile) {
			issues = append(issues, fault.Issue{Path: string(jsontext.Pointer("").AppendToken(field)),
				Message: "may be set by the pool's configuration only"})
		}
	}
	if len(issues) > 0 {
		return nil, refuse(issues...).WithHint("Leave the field out, or set it in connection.Pool.Setup.")
	}
	for one := range s.of(profile) {
		if one.schema == nil {
			continue
		}
		if found := one.schema.Validate(s.with(values, one.fields)); len(found) > 0 {
			return nil, refuse(found...)
		}
	}
	return canonical, nil
}

// of yields the profiles of that name, or all with "".
func (s *setups) of(profile string) iter.Seq[*profileSetup] {
	return func(yield func(*profileSetup) bool) {
		for n := range s.profiles {
			if one := &s.profiles[n]; (profile == "" || one.name == profile) && !yield(one) {
				return
			}
		}
	}
}

// hostOnly reports whether the host alone may set a field.
func (s *setups) hostOnly(field, profile string) bool {
	if _, set := s.values[field]; set {
		return true
	}
	for one := range s.of(profile) {
		if slices.Contains(one.hostOnly, field) {
			return true
		}
	}
	return false
}

// with adds the host's values of some fields.
func (s *setups) with(values map[string]any, fields map[string]bool) map[string]any {
	all := maps.Clone(values)
	for field, value := range s.values {
		if fields[field] {
			all[field] = value
		}
	}
	return all
}

func refuse(issues ...fault.Issue) *fault.Error {
	e := fault.New(fault.ArgsInvalid, "setup does not fit")
	e.Issues = issues
	return e
}

// object reads a JSON object; nothing and null are the empty one.
func object(raw json.RawMessage) (json.RawMessage, map[string]any, *fault.Issue) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	canonical, tree, issue := schema.Canonical(raw, setupDepth)
	if issue != nil {
		return nil, nil, issue
	}
	switch tree := tree.(type) {
	case map[string]any:
		return canonical, tree, nil
	case nil:
		return json.RawMessage("{}"), map[string]any{}, nil
	}
	return nil, nil, &fault.Issue{Message: "is not an object"}
}
