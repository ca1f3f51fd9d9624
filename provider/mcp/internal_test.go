package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzStandardJSON: whatever is JSON stays as it is, and the length never
// changes but for a byte order mark.
func FuzzStandardJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2,],}`, "// c\n{}", `{"a":"/*\"//"}`, "/*", `"\`, "\xef\xbb\xbf{}", "[,]", "/"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		got := standardJSON(src)
		if len(got) != len(bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))) {
			t.Errorf("%q became %q: the length changed", src, got)
		}
		if json.Valid(src) && !bytes.Equal(got, src) {
			t.Errorf("%q became %q, want valid JSON unchanged", src, got)
		}
	})
}

// FuzzPlain: the text of a peer never carries control characters into an
// error, is valid UTF-8 and bounded.
func FuzzPlain(f *testing.F) {
	for _, seed := range []string{"plain", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07x", "\x1b", "\x1b[", "a\x1b\x1b[1mb", "\u202ex", "\xff", "tab\tline\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := plain(s)
		if !utf8.ValidString(got) || len(got) > maxErrorText+16 {
			t.Errorf("%q became %q", s, got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Errorf("%q keeps control characters: %q", s, got)
		}
	})
}

// FuzzExpand: expanding never panics, and leaves text without references alone.
func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"a", "${A}", "${A:-b}", "${env:A}", "${", "}${}", "${input:x}", "$A", "${A:-${B}}"} {
		f.Add(seed)
	}
	v := &variables{lookup: func(name string) (string, bool) { return "v", name == "A" }, folder: "/w"}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := v.expand(s)
		if !strings.Contains(s, "${") && (err != nil || got != s) {
			t.Errorf("%q became %q, %v", s, got, err)
		}
	})
}

func TestAnsweredIDIsTheMessagesOwn(t *testing.T) {
	tests := map[string]int64{
		`{"jsonrpc":"2.0","id":7,"result":{"x":"aaa`:         7,
		`{"id":8,"jsonrpc":"2.0","result":`:                  8,
		`{"result":{"id":1,"x":1},"jsonrpc":"2.0","id":9}`:   9,
		`{"result":{"id":1},"id":10,"jsonrpc":"2.0"}`:        10,
		`{"result":{"x":{"y":1,"id":1}}}`:                    0,
		`{"result":"a string that ends like ,\"id\":11}"}`:   0,
		`{"jsonrpc":"2.0","method":"x","params":{"id":1}}`:   0,
		`{"jsonrpc":"2.0","id":12,"method":"x","params":{`:   0,
		`{"jsonrpc":"2.0","method":"x","params":{},"id":13}`: 0,
	}
	for line, want := range tests {
		id, ok := answeredID([]byte(line))
		if got, _ := id.Raw().(int64); ok != (want != 0) || got != want {
			t.Errorf("%s: got %v, %v, want %d", line, id.Raw(), ok, want)
		}
	}
}

// FuzzForm: no schema and no answer that a peer or a host makes up does harm,
// and what is sent is an object with the fields of the form.
func FuzzForm(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"a":{"type":"string","default":"x"}}}`, `{}`},
		{`{"properties":{"a":{"type":"array","items":{"enum":["x"]}}},"required":["a"]}`, `{"a":["x"]}`},
		{`null`, `null`}, {`{"properties":{"~/":{"type":"string","format":"date"}}}`, `{"~/":"x"}`}, {`{`, `[`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, schema, answer []byte) {
		form, err := readForm(schema)
		if err != nil {
			return
		}
		content, err := form.fill(answer)
		if err != nil {
			return
		}
		var values map[string]json.RawMessage
		if err := json.Unmarshal(content, &values); err != nil {
			t.Fatalf("%q answered with %q: %q is no object", schema, answer, content)
		}
		for name := range values {
			if _, ok := form.fields[name]; !ok {
				t.Errorf("%q answered with %q: %q is no field", schema, answer, name)
			}
		}
	})
}

func TestNumbersOfAnAnswerStayExact(t *testing.T) {
	form, err := readForm(json.RawMessage(`{"properties":{"n":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	const exact = `{"n":9007199254740993}`
	content, err := form.fill(json.RawMessage(exact))
	if err != nil || string(content) != exact {
		t.Errorf("got %s, %v", content, err)
	}
	sdk, err := json.Marshal(elicitResult{Action: actionAccept, Content: content}.forSDK())
	if err != nil || !strings.Contains(string(sdk), exact) {
		t.Errorf("for the SDK: got %s, %v", sdk, err)
	}
}

func TestAnErrorIsCutBetweenWords(t *testing.T) {
	for _, gap := range []int{1, 10, 100} {
		text := strings.Repeat("bla ", (maxErrorText-gap)/4) + "s3cr3t-t0ken-that-is-longer-than-what-is-left-of-the-text-that-an-error-can-have-before-it-is-cut-in-two-parts" + strings.Repeat(" bla", 100)
		if got := plain(text); strings.Contains(got, "s3cr3t") || !strings.HasSuffix(got, "bla … (cut)") {
			t.Errorf("%d bytes before the cut: it ends in %q", gap, got[len(got)-60:])
		}
	}
	if got := plain(strings.Repeat("x", 2*maxErrorText)); len(got) < maxErrorText {
		t.Errorf("of a single word %d bytes are left", len(got))
	}
}
