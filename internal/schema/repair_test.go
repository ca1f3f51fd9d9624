package schema_test

import (
	"encoding/json"
	"testing"

	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/google/go-cmp/cmp"
)

const repairable = `{"type":"object","additionalProperties":false,"properties":{
	"n":{"type":"integer"},"on":{"type":"boolean"},"tags":{"type":"array","items":{"type":"integer"}},
	"due":{"$ref":"#/$defs/due"},"text":{"type":"string"},"any":{},"maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]},
	"either":{"type":["string","integer"]}},
	"$defs":{"due":{"type":"object","required":["day"],"properties":{"day":{"type":"integer"}}}}}`

func TestRepairTakesValuesOutOfStrings(t *testing.T) {
	tests := map[string]struct {
		args, want string
		places     []string
	}{
		"number":               {`{"n":"7"}`, `{"n":7}`, []string{"/n"}},
		"boolean":              {`{"on":"true"}`, `{"on":true}`, []string{"/on"}},
		"array":                {`{"tags":"[1,2]"}`, `{"tags":[1,2]}`, []string{"/tags"}},
		"array of strings":     {`{"tags":["1",2]}`, `{"tags":[1,2]}`, []string{"/tags/0"}},
		"object by reference":  {`{"due":"{\"day\":\"3\"}"}`, `{"due":{"day":3}}`, []string{"/due", "/due/day"}},
		"alternatives":         {`{"maybe":"null"}`, `{"maybe":null}`, []string{"/maybe"}},
		"what fits stays":      {`{"text":"7","any":"8","either":"9"}`, `{"any":"8","either":"9","text":"7"}`, nil},
		"no JSON inside":       {`{"n":"seven"}`, `{"n":"seven"}`, nil},
		"JSON of another type": {`{"n":"[]"}`, `{"n":"[]"}`, nil},
		"as far as it goes":    {`{"n":"7","other":1}`, `{"n":7,"other":1}`, []string{"/n"}},
		"an object inside":     {`{"due":"{\"day\":{}}"}`, `{"due":{"day":{}}}`, []string{"/due"}},
		"names given twice":    {`{"due":"{\"day\":1,\"day\":2}"}`, `{"due":"{\"day\":1,\"day\":2}"}`, nil},
	}
	s, err := schema.Compile(json.RawMessage(repairable))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before, tree, issue := schema.Canonical([]byte(tt.args), 64)
			if issue != nil {
				t.Fatal(issue)
			}
			mended, places := s.Repair(tree, tree)
			if got := string(schema.Encode(mended)); got != tt.want {
				t.Errorf("mended to %s, want %s", got, tt.want)
			}
			if diff := cmp.Diff(tt.places, places); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
			if after := schema.Encode(tree); string(after) != string(before) {
				t.Errorf("the tree it was given changed to %s", after)
			}
		})
	}
}

func TestRepairLeavesWhatStandsForAString(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(repairable))
	if err != nil {
		t.Fatal(err)
	}
	_, tree, _ := schema.Canonical([]byte(`{"due":"{\"day\":\"1\"}","n":{"for":"7"},"tags":["2",{"for":"3"}],"text":{"for":"x"}}`), 64)
	_, shown, _ := schema.Canonical([]byte(`{"due":"{\"day\":\"1\"}","n":"7","tags":["2","3"],"text":"x"}`), 64)
	mended, places := s.Repair(shown, tree)
	want := `{"due":{"day":1},"n":{"for":"7"},"tags":[2,{"for":"3"}],"text":{"for":"x"}}`
	if got := string(schema.Encode(mended)); got != want {
		t.Errorf("mended to %s, want %s", got, want)
	}
	if diff := cmp.Diff([]string{"/due", "/due/day", "/tags/0"}, places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}
