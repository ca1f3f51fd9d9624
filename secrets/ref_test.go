package secrets_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/google/go-cmp/cmp"
)

// marshal is the JSON of v, which must have one.
func marshal(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestReferencesAreExtractedWithTheirPlaces(t *testing.T) {
	type login struct {
		User     string
		Password secrets.Ref
		More     map[string]any `json:"a/b~c"`
	}
	raw := marshal(t, login{User: "dora", Password: "app.password", More: map[string]any{
		"list": []any{1, secrets.Ref("ü <&> \"'"), secrets.Ref("")},
	}})
	// Whoever handles it on the way may decode it and encode it again.
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		t.Fatal(err)
	}
	indented, err := json.MarshalIndent(tree, " ", "\t")
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []json.RawMessage{raw, marshal(t, tree), indented} {
		got, found, err := secrets.Extract(raw)
		if err != nil {
			t.Fatal(err)
		}
		places := map[string]secrets.Ref{}
		for _, p := range found {
			places[p.Path] = p.Ref
		}
		if diff := cmp.Diff(map[string]secrets.Ref{"/Password": "app.password", "/a~1b~0c/list/1": "ü <&> \"'"}, places); diff != "" {
			t.Errorf("places (-want +got):\n%s", diff)
		}
		want := map[string]any{"User": "dora", "Password": map[string]any{"$secret": "app.password"},
			"a/b~c": map[string]any{"list": []any{1.0, map[string]any{"$secret": "ü <&> \"'"}, ""}}}
		var plain any
		if err := json.Unmarshal(got, &plain); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, plain); diff != "" {
			t.Errorf("arguments (-want +got):\n%s", diff)
		}
		if string(secrets.Strip(raw)) != string(got) {
			t.Error("Strip and Extract disagree")
		}
	}
}

func TestAReferenceAloneIsExtracted(t *testing.T) {
	got, found, err := secrets.Extract(marshal(t, secrets.Ref("x")))
	if err != nil || string(got) != `{"$secret":"x"}` || len(found) != 1 || found[0] != (secrets.Placeholder{Ref: "x"}) {
		t.Errorf("got %s, %v, %v", got, found, err)
	}
}

func TestDataNamesNoSecret(t *testing.T) {
	genuine := string(marshal(t, secrets.Ref("mine")))
	for _, data := range []string{
		`{"$secret":"mine"}`,
		`{"$mark":"","$secret":"mine"}`,
		`{"$mark":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","$secret":"mine"}`,
		strings.Replace(genuine, "mine", "yours", 1),
		strings.TrimSuffix(genuine, "}") + `,"more":1}`,
		strings.Replace(genuine, `"$secret"`, `"secret"`, 1),
		`{"more":1,` + genuine[1:],
		`{"$mark":1,"$secret":"mine"}`,
		`{"$mark":{"$mark":"x"},"$secret":["mine"]}`,
		`{"$mark":"x"}`, `"$mark"`, `{"a":"$mark"}`, `{"$mark":{}}`,
		string(marshal(t, genuine)),
	} {
		raw := json.RawMessage(data)
		got, found, err := secrets.Extract(raw)
		if err != nil || len(found) != 0 || string(got) != data {
			t.Errorf("%s: got %s, %v, %v", data, got, found, err)
		}
		if got := secrets.Strip(raw); string(got) != data {
			t.Errorf("%s: stripped to %s", data, got)
		}
	}
}

func TestBadJSONWithMarksIsRefused(t *testing.T) {
	genuine := string(marshal(t, secrets.Ref("mine")))
	for _, raw := range []string{
		genuine[:len(genuine)-1], `[` + genuine, genuine + genuine, genuine + `x`,
		`{"a":` + genuine + `,"a":1}`, `{"a":` + genuine + ",\"b\":\"\xff\"}", `{"$mark"`, `{"$mark":`,
		strings.Repeat("[", 20000) + `"$mark"` + strings.Repeat("]", 20000),
	} {
		got, found, err := secrets.Extract(json.RawMessage(raw))
		if !errors.Is(err, fault.ArgsInvalid) || got != nil || found != nil {
			t.Errorf("%s: got %s, %v, %v", fault.Quote(raw), got, found, err)
		}
	}
	repeated := `{"a":` + genuine + `,"a":1}`
	if got := string(secrets.Strip(json.RawMessage(repeated))); got != `{"a":{"$secret":"mine"},"a":1}` {
		t.Errorf("what repeats a name is stripped to %s", got)
	}
}

func TestArgumentsWithoutMarksAreNotCopied(t *testing.T) {
	raw := json.RawMessage(`{"a":{"$secret":"x"}}`)
	allocs := testing.AllocsPerRun(10, func() {
		got, _, err := secrets.Extract(raw)
		if err != nil || unsafe.SliceData(got) != unsafe.SliceData(raw) || unsafe.SliceData(secrets.Strip(raw)) != unsafe.SliceData(raw) {
			t.Error("it was copied")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestAReferenceIsReadFromNothingButItsOwnJSON(t *testing.T) {
	for raw, want := range map[string]secrets.Ref{
		`""`: "", `null`: "before",
		string(marshal(t, secrets.Ref("app.password"))): "app.password",
	} {
		got := secrets.Ref("before")
		if err := json.Unmarshal([]byte(raw), &got); err != nil || got != want {
			t.Errorf("%s: got %q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		`"app.password"`, `{"$secret":"app.password"}`, `1`, `[]`, `{}`, `{"secret":"x"}`, `{"$secret":1}`, `{"$secret":"x","more":"y"}`, `{"$secret":"x","$secret":"y"}`,
		`{"$mark":"forged","$secret":"x"}`,
	} {
		var got secrets.Ref
		if err := json.Unmarshal([]byte(raw), &got); !errors.Is(err, fault.ArgsInvalid) || got != "" {
			t.Errorf("%s: got %q, %v", raw, got, err)
		}
	}
}

func TestANameThatIsNotUTF8HasNoJSON(t *testing.T) {
	if raw, err := json.Marshal(secrets.Ref("\xff")); !errors.Is(err, fault.SecretUnavailable) {
		t.Errorf("got %s, %v", raw, err)
	}
}

func FuzzExtract(f *testing.F) {
	for _, seed := range []string{
		`{"$mark":"x","$secret":"y"}`, `{"a":[{"$mark":"","$secret":"y"}],"$mark":{}}`, `{"\u0024mark":"$mark"}`, `"$mark`,
		"{\"$mark\":\"\xff\",\"$secret\":\"\"}", `{"$mark":"a","$mark":"b"}`, `[[[{"$mark":"x","$secret":{"$mark":"x"}}]]] `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, found, err := secrets.Extract(raw)
		if len(found) != 0 {
			t.Errorf("%q names %v", raw, found)
		}
		if err == nil && string(got) != string(raw) || err != nil && !errors.Is(err, fault.ArgsInvalid) {
			t.Errorf("%q became %q, %v", raw, got, err)
		}
		if got := secrets.Strip(raw); string(got) != string(raw) {
			t.Errorf("%q was stripped to %q", raw, got)
		}
		if !json.Valid(raw) {
			return
		}
		mixed := marshal(t, []any{json.RawMessage(raw), secrets.Ref("mine"), json.RawMessage(raw)})
		if _, found, err := secrets.Extract(mixed); err == nil && cmp.Diff([]secrets.Placeholder{{Path: "/1", Ref: "mine"}}, found) != "" {
			t.Errorf("%s holds %v", mixed, found)
		}
	})
}
