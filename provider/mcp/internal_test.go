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
