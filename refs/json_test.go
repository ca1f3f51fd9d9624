package refs_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
)

func encoded(t testing.TB, r refs.Ref) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func decoded(t testing.TB, text string) refs.Ref {
	t.Helper()
	var r refs.Ref
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func unbase64(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAnUnsealedRefIsItsKindAndID(t *testing.T) {
	text := encoded(t, refs.New("chat.thread", "C1"))
	if want := `{"$ref":{"id":"C1","kind":"chat.thread"}}`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	r := decoded(t, " {\"$ref\" : {\"kind\":\"chat.th\\u0072ead\", \"id\":\"C1\"}}\n")
	if !r.Equal(refs.New("chat.thread", "C1")) || r.Sealed() {
		t.Errorf("read back as %v", r)
	}
}

func TestTheZeroRefIsNull(t *testing.T) {
	if text := encoded(t, refs.Ref{}); text != "null" {
		t.Errorf("got %s, want null", text)
	}
	r := refs.New("element", "e1")
	if err := json.Unmarshal([]byte("null"), &r); err != nil || !r.IsZero() {
		t.Errorf("null is read as %v, %v", r, err)
	}
}

func TestASealedRefKeepsEverythingInJSON(t *testing.T) {
	keys := newKeys(t)
	blob := refs.BlobInfo{ID: "b1", MIMEType: "image/png", Size: 1<<62 + 1, Sensitive: true}
	scope := refs.Scope{Connection: "app", Thread: "t1", Lease: "l1", Instance: "i1"}
	for _, sealed := range []refs.Ref{
		seal(t, keys, blob.Ref(), scope, true),
		seal(t, keys, refs.New("element", "<é\u2028\x00>"), scope, false),
	} {
		back := decoded(t, encoded(t, sealed))
		if !back.Equal(sealed) || back.Size() != sealed.Size() || back.MIMEType() != sealed.MIMEType() || back.Sensitive() != sealed.Sensitive() {
			t.Errorf("got %v, want %v", back, sealed)
		}
		direct, err := sealed.MarshalJSON()
		if err != nil || strings.Contains(string(direct), `\u003c`) {
			t.Errorf("the canonical form escapes too much: %s, %v", direct, err)
		}
	}
}

func TestWhatIsNoRefIsNotRead(t *testing.T) {
	keys := newKeys(t)
	good := encoded(t, seal(t, keys, refs.New("element", "e1"), home(), true))
	tag := good[strings.Index(good, `"sig":"`)+7:][:43]
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s has no %s", good, old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, text := range map[string]string{
		"a string":               `"e1"`,
		"a list":                 `[]`,
		"an empty object":        `{}`,
		"a schema's reference":   `{"$ref":"#/$defs/x"}`,
		"empty inside":           `{"$ref":{}}`,
		"no kind":                `{"$ref":{"id":"e1"}}`,
		"a second member":        strings.TrimSuffix(good, "}") + `,"x":1}`,
		"another name":           replace(`"$ref"`, `"$Ref"`),
		"an unknown field":       replace(`"id"`, `"x":1,"id"`),
		"another case":           replace(`"id"`, `"ID"`),
		"a number for a string":  replace(`"id":"e1"`, `"id":1`),
		"null for a string":      replace(`"id":"e1"`, `"id":null`),
		"an empty lease":         replace(`"id"`, `"lease":"","id"`),
		"a repeated field":       replace(`"id":"e1"`, `"id":"e1","id":"e1"`),
		"repeated, escaped":      replace(`"id":"e1"`, `"id":"e1","\u0069d":"e2"`),
		"a repeated ref":         good[:len(good)-1] + "," + good[1:],
		"no connection":          replace(`"connection":"app",`, ``),
		"no tag":                 replace(`"sig":"`+tag+`",`, ``),
		"an empty tag":           replace(tag, ``),
		"a short tag":            replace(tag, tag[:42]),
		"a long tag":             replace(tag, tag+"A"),
		"a padded tag":           replace(tag, tag+"="),
		"a tag with a line end":  replace(tag, tag+`\n`),
		"a tag broken in two":    replace(tag, tag[:20]+`\n`+tag[20:]),
		"a tag in hex":           replace(tag, strings.Repeat("0f", 32)),
		"a size on an element":   replace(`"id"`, `"size":3,"id"`),
		"a false fact":           replace(`"id"`, `"sensitive":false,"id"`),
		"a seal without key":     replace(keys.Current(), ``),
		"something after it":     good + "x",
		"another ref after it":   good + good,
		"half of it":             good[:len(good)/2],
		"not UTF-8":              replace("e1", "e\xff"),
		"a lone surrogate":       replace("e1", `e\ud800`),
		"deeper":                 replace(`"e1"`, `{"e1":1}`),
		"too long":               replace("e1", strings.Repeat("e", refs.MaxSize)),
		"far too long":           replace("e1", strings.Repeat("e", 1<<20)),
		"blob of a bad size":     `{"$ref":{"id":"b","kind":"blob","size":-1}}`,
		"blob of no size":        `{"$ref":{"id":"b","kind":"blob","size":0}}`,
		"blob of half a byte":    `{"$ref":{"id":"b","kind":"blob","size":0.5}}`,
		"blob of too many bytes": `{"$ref":{"id":"b","kind":"blob","size":9223372036854775808}}`,
		"size as text":           `{"$ref":{"id":"b","kind":"blob","size":"3"}}`,
	} {
		var r refs.Ref
		err := json.Unmarshal([]byte(text), &r)
		if err == nil || !r.IsZero() {
			t.Errorf("%s: read as %v, error %v", name, r, err)
		}
		// Text that is no JSON at all never reaches the ref.
		if json.Valid([]byte(text)) {
			wantRefused(t, name, err, fault.RefForged)
		}
		if err := r.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s: read as %v when asked directly", name, r)
		}
	}
}

func TestWhiteSpaceCountsWhenARefIsReadAlone(t *testing.T) {
	var r refs.Ref
	text := `{"$ref":{"id":"e1","kind":"element"` + strings.Repeat(" ", 1<<20) + `}}`
	wantRefused(t, "mostly white space", r.UnmarshalJSON([]byte(text)), fault.RefForged)
}

// spellings are the texts of a tag that decode to the same bytes when the bits
// that the last character has to spare are ignored.
func spellings(tag string) []string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, tag[len(tag)-1])
	var all []string
	for spare := 1; spare < 4; spare++ {
		all = append(all, tag[:len(tag)-1]+string(alphabet[last|spare]))
	}
	return all
}

func TestATagHasOneSpelling(t *testing.T) {
	good := encoded(t, seal(t, newKeys(t), refs.New("element", "e1"), home(), true))
	tag := good[strings.Index(good, `"sig":"`)+7:][:43]
	others := append(spellings(tag), strings.NewReplacer("-", "+", "_", "/").Replace(tag)+"=")
	for _, other := range others {
		var r refs.Ref
		if err := json.Unmarshal([]byte(strings.Replace(good, tag, other, 1)), &r); err == nil {
			t.Errorf("the tag %s is read when spelled %s", tag, other)
		}
	}
}

func FuzzRef(f *testing.F) {
	for _, text := range []string{
		`null`, `{"$ref":{"id":"C1","kind":"chat.thread"}}`, `{"$ref":"#/$defs/x"}`,
		`{"$ref":{"connection":"app","id":"e1","instance":"i","key":"0123456789abcdef","kind":"element","sig":"` + strings.Repeat("A", 43) + `","thread":"t"}}`,
		`{"$ref":{"id":"b","kind":"blob","size":7,"sensitive":true,"type":"image/png"}}`,
		`{"$ref":{"id":"\ud800","kind":"x"}}`, `{"$ref":{"id":"a","id":"b","kind":"x"}}`,
	} {
		f.Add([]byte(text))
	}
	keys := newKeys(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var first refs.Ref
		if err := first.UnmarshalJSON(data); err != nil {
			return
		}
		text, err := first.MarshalJSON()
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", data, err)
		}
		var second refs.Ref
		if err := second.UnmarshalJSON(text); err != nil || !second.Equal(first) {
			t.Fatalf("%q became %s, which is read as %v, %v", data, text, second, err)
		}
		if again, err := second.MarshalJSON(); err != nil || string(again) != string(text) {
			t.Fatalf("%q became %s, then %s, %v", data, text, again, err)
		}
		if err := keys.Open(first, refs.Scope{Thread: first.Thread(), Connection: first.Connection()}); err == nil {
			t.Fatalf("%q was opened without having been sealed", data)
		}
	})
}
