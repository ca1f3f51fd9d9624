package gates_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
)

func TestMarksThatCannotBeReadAreNoted(t *testing.T) {
	for _, mark := range []string{`"ticket"`, `true`, `{"kind":""}`, `{"knd":"ticket"}`, `{"kind":"ticket","volatil":true}`} {
		c := gates.NewCatalog("notes", &provider.Manifest{Operations: []provider.Operation{
			{Name: "list", Result: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","x-ref":` + mark + `}}}`)},
		}})
		if err := c.Compile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if notes := c.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "list") {
			t.Errorf("%s: notes %q", mark, notes)
		}
	}
}
