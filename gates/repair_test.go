package gates_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/store"
)

const mendable = `{"type":"object","additionalProperties":false,"properties":{
	"n":{"type":"integer"},"text":{"type":"string"},"el":{"type":"string","x-ref":{"kind":"element"}},
	"in":{"type":"object","properties":{"el":{"type":"string","x-ref":{"kind":"element"}},"n":{"type":"integer"}}}}}`

// mended calls an operation with the schema above, and returns the outcome with
// the arguments that were sent.
func mended(t *testing.T, args string, change func(*gates.Request)) (*gates.Outcome, string) {
	t.Helper()
	ctx, s := t.Context(), store.Memory()
	defer s.Close()
	keys, err := refs.OpenKeys(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := keys.Seal(refs.New("element", "7"), refs.Scope{Connection: "app", Thread: "t"}, false)
	if err != nil {
		t.Fatal(err)
	}
	aliases := refs.OpenAliases(s)
	if _, err := aliases.Alias(ctx, "t", ref); err != nil {
		t.Fatal(err)
	}
	sent := ""
	r := &gates.Request{
		Call: gates.Call{Op: "op", Args: []byte(args), Source: gates.SourceModel, Thread: "t"},
		Target: gates.Target{Name: "app", Repair: true,
			Catalog: gates.NewCatalog("app", &provider.Manifest{Operations: []provider.Operation{{Name: "op", Args: []byte(mendable)}}}),
			Send: func(_ context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
				sent = string(req.Args)
				return &provider.CallResult{}, nil
			}},
	}
	if change != nil {
		change(r)
	}
	return gates.New(&gates.Options{Keys: keys, Aliases: aliases}).Call(ctx, r), sent
}

func TestArgumentsAreMendedAroundWhatStandsForAValue(t *testing.T) {
	for name, c := range map[string]struct {
		args, sent string
		places     []string
	}{
		"nothing to mend":           {`{"n":7,"text":"7"}`, `{"n":7,"text":"7"}`, nil},
		"a number":                  {`{"n":"7","text":"7"}`, `{"n":7,"text":"7"}`, []string{"/n"}},
		"beside a reference":        {`{"n":"7","text":{"$ref":"element-1"}}`, `{"n":7,"text":"7"}`, []string{"/n"}},
		"beside an alias":           {`{"n":"7","el":"element-1"}`, `{"el":"7","n":7}`, []string{"/n"}},
		"a reference in a string":   {`{"in":"{\"el\":{\"$ref\":\"element-1\"},\"n\":\"1\"}"}`, `{"in":{"el":"7","n":1}}`, []string{"/in", "/in/n"}},
		"an alias in a string":      {`{"in":"{\"el\":\"element-1\"}"}`, `{"in":{"el":"7"}}`, []string{"/in"}},
		"a string stays a string":   {`{"text":"{\"$ref\":\"element-1\"}"}`, `{"text":"{\"$ref\":\"element-1\"}"}`, nil},
		"a whole that is no object": {`"{\"n\":7}"`, ``, nil},
		"a number as a reference":   {`{"n":{"$ref":"element-1"}}`, ``, nil},
		"only a part fits":          {`{"n":"7","other":1}`, ``, nil},
		"a secret in a string":      {`{"in":"{\"el\":{\"$secret\":\"x\"}}"}`, ``, nil},
		"no such number":            {`{"n":"seven"}`, ``, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out, sent := mended(t, c.args, nil)
			if sent != c.sent {
				t.Errorf("sent %s, want %s: %v", sent, c.sent, out.Err)
			}
			if diff := cmp.Diff(c.places, out.Repaired); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
			if c.sent == "" && fault.CodeOf(out.Err) != fault.ArgsInvalid {
				t.Errorf("got %v", out.Err)
			}
		})
	}
}

func TestOnlyWhatModelsWriteIsMendedAndOnlyIfAsked(t *testing.T) {
	for name, change := range map[string]func(*gates.Request){
		"a step":       func(r *gates.Request) { r.Call.Source = gates.SourceStep },
		"not asked to": func(r *gates.Request) { r.Target.Repair = false },
	} {
		if out, sent := mended(t, `{"n":"7"}`, change); sent != "" || len(out.Repaired) > 0 || fault.CodeOf(out.Err) != fault.ArgsInvalid {
			t.Errorf("%s: sent %s, %v", name, sent, out.Err)
		}
	}
}
