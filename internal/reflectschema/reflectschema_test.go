package reflectschema_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/internal/reflectschema"
	"github.com/bridle-dev/bridle/internal/schema"
)

type tree struct {
	Name     string `json:"name"`
	Children []tree `json:"children,omitempty"`
}

func TestSchemasSayWhatIsWritten(t *testing.T) {
	for _, c := range []struct {
		of     reflect.Type
		text   string
		object bool
	}{
		{reflect.TypeFor[struct{}](), `{"additionalProperties":false,"type":"object"}`, true},
		{reflect.TypeFor[int](), `{"type":"integer"}`, false},
		{reflect.TypeFor[netip.Addr](), `{"type":"string"}`, false},
		{reflect.TypeFor[time.Time](), `{"type":"string","format":"date-time"}`, false},
		{reflect.TypeFor[struct {
			A netip.Addr `json:"a"`
		}](), `{"properties":{"a":{"type":"string"}},"additionalProperties":false,"type":"object","required":["a"]}`, true},
		{reflect.TypeFor[map[string]int](), `{"additionalProperties":{"type":"integer"},"type":"object"}`, true},
	} {
		got, err := reflectschema.Of(c.of)
		if err != nil || string(got.Text) != c.text || got.Object != c.object {
			t.Errorf("%s: got %s, object %t, %v", c.of, got.Text, got.Object, err)
		}
	}
}

func TestARecursiveTypeHasDefinitions(t *testing.T) {
	got, err := reflectschema.Of(reflect.TypeFor[tree]())
	if err != nil || !got.Object {
		t.Errorf("got %s, %v", got.Text, err)
	}
	compiled, err := schema.Compile(got.Text)
	if err != nil {
		t.Fatalf("%s: %v", got.Text, err)
	}
	for text, fits := range map[string]bool{
		`{"name":"a","children":[{"name":"b","children":[]}]}`: true, `{"name":"a","children":[{"nome":"b"}]}`: false,
	} {
		value, issue := schema.Parse(json.RawMessage(text), 64)
		if issue != nil {
			t.Fatal(issue)
		}
		if issues := compiled.Validate(value); (len(issues) == 0) != fits {
			t.Errorf("%s: %v", text, issues)
		}
	}
}

func TestALenientSchemaAllowsWhatTheTypeLacks(t *testing.T) {
	type inner struct {
		A int `json:"a"`
	}
	for of, want := range map[reflect.Type]string{
		reflect.TypeFor[struct{}](): `{"type":"object"}`,
		reflect.TypeFor[struct {
			I []inner `json:"i"`
		}](): `{"properties":{"i":{"items":{"properties":{"a":{"type":"integer"}},"type":"object","required":["a"]},"type":"array"}},"type":"object","required":["i"]}`,
	} {
		got, err := reflectschema.Lenient(of)
		if err != nil || string(got.Text) != want || !got.Object {
			t.Errorf("%s: got %s, object %t, %v", of, got.Text, got.Object, err)
		}
	}
}

func TestATypeThatJSONCannotHoldIsAnError(t *testing.T) {
	if got, err := reflectschema.Of(reflect.TypeFor[chan int]()); err == nil {
		t.Errorf("got %s", got.Text)
	}
}
