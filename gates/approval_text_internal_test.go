package gates

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// FuzzVisible checks that shown text steers nothing, stays within its lines, and
// that JSON means what it meant.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"plain", "a\nb\r\x1b[2J", "\u202ehcaer\u2066", "\u2028\u00a0\u3000", "e\u0301\u0301\u0301\u0301\u0301\u0301", "\xff\x00\x7f", "界\U000e0041\U0001f600", `"\\u0041`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		shown := visible(text)
		if i := strings.IndexFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q is shown as %q", text, shown)
		}
		lines := wrap(shown, lineWidth)
		if got := strings.Join(lines, ""); got != shown {
			t.Errorf("in lines %q, want %q", got, shown)
		}
		for _, l := range lines {
			if ascii := strings.Map(func(r rune) rune { return min(r, 0x80) }, l); len(ascii) > lineWidth {
				t.Errorf("%q is wider than %d", l, lineWidth)
			}
		}
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if json.Unmarshal(raw, &before) != nil || json.Unmarshal([]byte(visible(string(raw))), &after) != nil || before != after {
			t.Errorf("%q means %q, then %q", raw, before, after)
		}
	})
}
