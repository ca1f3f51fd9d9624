package gates_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

func TestAManifestKeepsNoCredential(t *testing.T) {
	const value = `s3cr3t/"tok€n`
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{value: map[string]any{"description": value}}})
	if err != nil {
		t.Fatal(err)
	}
	s := secrets.NewScrubber()
	c := gates.New(&gates.Options{Scrubber: s})
	m := &provider.Manifest{
		Instructions: "use " + value, Notes: []string{"saw " + value}, Profiles: []provider.Version{"a@1", value},
		Operations: []provider.Operation{{Name: "ok", Title: value, Description: value, Args: raw, Result: raw}, {Name: "op-" + value}},
		Reads: []provider.Read{{Name: "ok", Title: value, Description: value, MIMEType: value, Args: raw, Result: raw}, {Name: value},
			{Name: "addressed", URI: "x:" + value}},
		Events: []provider.EventType{{Name: "ok", Title: value, Description: value, Args: raw, Payload: raw}, {Name: value}},
	}
	if got := c.Manifest(m); got != m {
		t.Error("a manifest without credentials was copied")
	}
	s.Add(value)
	got := c.Manifest(m)
	if text := fmt.Sprintf("%+v", *got); strings.Contains(text, "s3cr3t") {
		t.Errorf("the credential is still there: %s", text)
	}
	if len(got.Operations) != 1 || len(got.Reads) != 1 || len(got.Events) != 1 || len(got.Profiles) != 1 || len(got.Notes) != 5 {
		t.Errorf("what has it in its name is left out and noted, the rest is not: %+v", *got)
	}
	if !json.Valid(got.Operations[0].Args) {
		t.Errorf("the schema is no JSON any more: %s", got.Operations[0].Args)
	}
	if m.Operations[0].Title != value || len(m.Operations) != 2 || m.Notes[0] != "saw "+value {
		t.Error("the peer's own manifest was changed")
	}
	if diff := cmp.Diff(got, c.Manifest(m)); diff != "" {
		t.Errorf("the same manifest comes back differently (-first +second):\n%s", diff)
	}
}

func TestIdentitiesComeBackTheSameWithoutCredentials(t *testing.T) {
	s := secrets.NewScrubber()
	s.Add("s3cr3t-token")
	c := gates.New(&gates.Options{Scrubber: s})
	id := provider.Identity{Surface: "web", Instance: "of s3cr3t-token", Epoch: "1"}
	got := c.Identity(id)
	if got.Instance != "of <redacted>" || got.Surface != "web" || got != c.Identity(id) {
		t.Errorf("got %+v", got)
	}
}
