package gates_test

import (
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/secrets"
)

// What a secret leaves open when arguments are first checked is checked when it
// is filled in, wherever the schema is about it.
func TestWhatASecretLeftOpenIsCheckedWhenItIsFilledIn(t *testing.T) {
	const pw = `"pw":{"type":"string"}`
	for name, schema := range map[string]string{
		"the secret":              `{"properties":{"pw":{"type":"string","maxLength":3}}}`,
		"a condition beside it":   `{"properties":{` + pw + `,"n":{"if":{"const":7},"then":{"const":8}}}}`,
		"a condition above it":    `{"properties":{` + pw + `},"if":{"required":["n"]},"then":{"properties":{"n":{"const":8}}}}`,
		"a choice beside it":      `{"properties":{` + pw + `,"n":{"anyOf":[{"const":8},{"const":9}]}}}`,
		"a choice of the whole":   `{"properties":{` + pw + `},"anyOf":[{"properties":{"pw":{"const":"x"}}}]}`,
		"constants of the secret": `{"properties":{"pw":{"enum":["x","y"]}}}`,
	} {
		w := newWorld(t)
		w.schema = schema
		r := w.request(`{"n":7,"pw":{"$secret":"pw"}}`)
		r.Call.Secrets = []secrets.Placeholder{{Path: "/pw", Ref: "pw"}}
		if out := w.call(r); fault.CodeOf(out.Err) != fault.ArgsInvalid || len(w.sent) > 0 {
			t.Errorf("%s: sent %v, %v", name, w.sent, out.Err)
		}
	}
}
