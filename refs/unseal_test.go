package refs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/store"
)

func TestWithoutSealsNothingOpens(t *testing.T) {
	keys, err := refs.OpenKeys(t.Context(), store.Memory())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := keys.Seal(refs.New("element", "e1"), refs.Scope{Connection: "web", Thread: "t"}, false)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"list": []any{sealed, "sig"}, "text": "stays"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"list":[{"$ref":{"connection":"web","id":"e1","kind":"element","thread":"t"}},"sig"],"text":"stays"}`
	if got := string(refs.WithoutSeals(raw)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	escaped := strings.Replace(string(raw), `"sig":`, `"s\u0069g":`, 1)
	if got := string(refs.WithoutSeals(json.RawMessage(escaped))); got != want {
		t.Errorf("escaped: got %s, want %s", got, want)
	}
	if got := string(refs.WithoutSeals(json.RawMessage(`{"sig": 1, "a":[1.0]}`))); got != `{"sig": 1, "a":[1.0]}` {
		t.Errorf("what has no seal became %s", got)
	}
	if got := string(refs.WithoutSeals(json.RawMessage(`{"sig`))); !strings.Contains(got, "left out") {
		t.Errorf("what is no JSON became %s", got)
	}
}
