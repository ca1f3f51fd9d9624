package secrets_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/secrets"
)

// plainly is what String is to do, done plainly: all occurrences of all needles,
// and the marker for each run of overlapping ones.
func plainly(needles []string, text string) string {
	covered := make([]bool, len(text))  // byte i is part of an occurrence
	joined := make([]bool, len(text)+1) // an occurrence goes on from byte i-1 to i
	for _, needle := range needles {
		for at := range len(text) {
			if strings.HasPrefix(text[at:], needle) {
				for i := range len(needle) {
					covered[at+i] = true
					joined[at+i] = joined[at+i] || i > 0
				}
			}
		}
	}
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !covered[i]:
			b.WriteByte(text[i])
		case !joined[i]:
			b.WriteString("<redacted>")
		}
	}
	return b.String()
}

// known registers values and returns all forms of those that were accepted.
func known(values ...string) (*secrets.Scrubber, []string) {
	s := secrets.NewScrubber()
	var needles []string
	for _, v := range values {
		if s.AddSecret(secrets.NewValue(v)) == nil {
			needles = append(needles, secrets.Forms(v)...)
		}
	}
	return s, needles
}

// streamed is what a Stream returns for text in pieces of the lengths in cuts.
func streamed(s *secrets.Scrubber, text string, cuts []byte) string {
	st := s.Stream()
	var out strings.Builder
	for i := 0; text != "" && len(cuts) > 0; i++ {
		n := min(len(text), int(cuts[i%len(cuts)])+1)
		out.WriteString(st.Write(text[:n]))
		text = text[n:]
	}
	out.WriteString(st.Write(text))
	return out.String() + st.Flush()
}

func FuzzScrub(f *testing.F) {
	f.Add("hunter2hunter2", "another one", "a hunter2hunter2 b aHVudGVyMmh1bnRlcjI=", []byte{0})
	f.Add("aaaaaaaa", "aaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaab", []byte{2, 0})
	f.Add("abcdefgh", "cdefghij", "abcdefghij abcdefgabcdefghabcdefgh", []byte{3})
	f.Add("1234", "12345678", "123 1234 12345 12%334", []byte{1, 7})
	f.Add("p@s/", "ü\"&😀", `p%40s%2f p%40s%2F p@s\/ ü\"&😀 \u00fc\"\u0026\ud83d\ude00 %C3%BC%22%26`, []byte{0})
	f.Add("abab", "babab", "abababababab", []byte{0, 4})
	f.Add("\xff\xff\xff\xff", "", "\xff\xff\xff\xff\xff", []byte{})
	f.Fuzz(func(t *testing.T, a, b, text string, cuts []byte) {
		s, needles := known(a, b)
		got := s.String(text)
		if want := plainly(needles, text); got != want {
			t.Fatalf("%q became %q, want %q", text, got, want)
		}
		if piecewise := streamed(s, text, cuts); piecewise != got {
			t.Errorf("in pieces of %v: got %q, want %q", cuts, piecewise, got)
		}
		if s.Bytes([]byte(text)) != (got != text) {
			t.Errorf("Bytes and String disagree on %q", text)
		}
		if strings.ContainsAny(a+b, marker) {
			return // what is left and the marker may happen to spell such a value
		}
		for _, needle := range needles {
			if strings.Contains(got, needle) {
				t.Errorf("%q is in %q", needle, got)
			}
		}
	})
}

const marker = "<redacted>"

// reading returns the texts that a JSON document says, and those that its
// strings say when they are read as JSON.
func reading(doc string, depth int) []string {
	var tree any
	if depth == 0 || json.Unmarshal([]byte(doc), &tree) != nil {
		return nil
	}
	var all []string
	var visit func(v any)
	say := func(s string) { all = append(append(all, s), reading(s, depth-1)...) }
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			say(v)
		case []any:
			for _, x := range v {
				visit(x)
			}
		case map[string]any:
			for name, x := range v {
				say(name)
				visit(x)
			}
		}
	}
	visit(tree)
	return all
}

func FuzzScrubJSON(f *testing.F) {
	f.Add("hunter2hunter2", `{"a":"\u0068unter2hunter2"}`)
	f.Add("12345678", `{"12345678":12345678,"x12345678":[]}`)
	f.Add(`"a":"b","c"`, `{"a":"b","c":1}`)
	f.Add("1234", `{"n":[1234,12.34,1e1234],"1234":true,"x":"\"\\u0031234\""}`)
	f.Add(`a"b\c/d`, `["a\"b\\c\/d","{\"k\":\"a\\\"b\\\\c/d\"}","\"\\\"a\\\\\\\"b\\\\\\\\c/d\\\"\""]`)
	f.Add("x😀yz", `"\"\\ud83d\\uDE00\" x\ud83d\ude00yz x\\ud83d\\ude00yz"`)
	f.Fuzz(func(t *testing.T, value, doc string) {
		s, needles := known(value)
		got := string(s.JSON(json.RawMessage(doc)))
		if !json.Valid([]byte(doc)) {
			if got != s.String(doc) {
				t.Errorf("%q is no JSON and became %q", doc, got)
			}
			return
		}
		if !json.Valid([]byte(got)) {
			t.Fatalf("%s became %s", doc, got)
		}
		texts := reading(got, 3)
		if !slices.ContainsFunc(append(reading(doc, 5), doc), func(s string) bool { return plainly(needles, s) != s }) && got != doc &&
			!strings.Contains(doc, `\`) {
			t.Errorf("%s holds no value and became %s", doc, got)
		}
		if strings.ContainsAny(value, marker+`"\`) {
			return // what is left, the marker and the quotes may happen to spell such a value
		}
		for _, text := range append(texts, got) {
			if plainly(needles, text) != text {
				t.Errorf("%q is in %q of %s, from %s", value, text, got, doc)
			}
		}
		if again := string(s.JSON(json.RawMessage(got))); again != got {
			t.Errorf("scrubbing twice changes %s to %s", got, again)
		}
	})
}

func TestManyValuesAreFoundWhateverTheirLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func(least, most int) string {
		b := make([]byte, least+rng.IntN(most-least+1))
		for i := range b {
			b[i] = "abc%/"[rng.IntN(5)]
		}
		return string(b)
	}
	for range 20 {
		s := secrets.NewScrubber()
		var needles []string
		for round := range 30 {
			// Short values come late, when the tables are made for long ones.
			v := secrets.NewValue(word(max(4, 20-round), 40))
			if err := s.AddSecret(v); err != nil {
				t.Fatal(err)
			}
			needles = append(needles, secrets.Forms(v.Reveal())...)
			text := word(0, 30) + needles[rng.IntN(len(needles))] + word(0, 3) + needles[rng.IntN(len(needles))][1:] + word(0, 30)
			want := plainly(needles, text)
			if got := s.String(text); got != want {
				t.Fatalf("%q became %q, want %q", text, got, want)
			}
			if got := streamed(s, text, []byte{byte(rng.IntN(3)), byte(rng.IntN(9))}); got != want {
				t.Fatalf("%q was streamed as %q, want %q", text, got, want)
			}
		}
	}
}
