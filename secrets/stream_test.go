package secrets_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unsafe"

	"github.com/bridle-dev/bridle/secrets"
	"github.com/google/go-cmp/cmp"
)

func TestAStreamHoldsBackOnlyWhatMayBeginAValue(t *testing.T) {
	st := scrubber("hunter2hunter2").Stream()
	for i, step := range []struct{ write, want string }{
		{"nothing to hide.", "nothing to hide."},
		{"to hunt", "to "},
		{"er", ""},
		{"s and hunters", "hunters and hunters"},
		{" hunter2hunter2!", " <redacted>!"},
		{"hunter2hunter", ""},
		{"", ""},
		{"2", "<redacted>"},
		{"hunter2hunter2hunter2", ""},
		{"hunter", ""},
		{".", "hunter."},
	} {
		if got := st.Write(step.write); got != step.want {
			t.Errorf("%d: after %q: got %q, want %q", i, step.write, got, step.want)
		}
	}
	st.Write("hunter2hunte")
	if got := st.Flush(); got != "hunter2hunte" {
		t.Errorf("flushed %q", got)
	}
	if got := st.Write("r2.") + st.Flush(); got != "r2." {
		t.Errorf("the next text is %q", got)
	}
}

func TestNoFragmentOfAValueLeavesAStream(t *testing.T) {
	const value = "s3cr3t/valu3"
	s := scrubber(value)
	for _, form := range secrets.Forms(value) {
		st := s.Stream()
		var got strings.Builder
		for _, c := range []byte("x " + form + " y") {
			out := st.Write(string(c))
			if strings.ContainsAny(out, form) && out != "<redacted>" && out != "x" && out != "y" {
				t.Errorf("%q of %q was released", out, form)
			}
			got.WriteString(out)
		}
		if got.WriteString(st.Flush()); got.String() != "x <redacted> y" {
			t.Errorf("%q became %q", form, got.String())
		}
	}
}

func TestAStreamIsBoundedByTheLongestForm(t *testing.T) {
	st := scrubber("aaaaaaaa").Stream()
	var got strings.Builder
	for range 1000 {
		got.WriteString(st.Write("aaa"))
	}
	if got.WriteString(st.Flush()); got.String() != "<redacted>" {
		t.Errorf("got %s", got.String())
	}
}

func TestAStreamKnowsValuesAddedMeanwhile(t *testing.T) {
	s := scrubber("hunter2hunter2")
	st := s.Stream()
	st.Write("hunter2h")
	s.Add("unter2had")
	if got := st.Write("ad") + st.Flush(); got != "h<redacted>" {
		t.Errorf("got %q", got)
	}
}

func TestCleanPiecesAreNotCopied(t *testing.T) {
	for _, s := range []*secrets.Scrubber{secrets.NewScrubber(), scrubber("hunter2hunter2")} {
		text := "nothing here."
		if got := s.Stream().Write(text); unsafe.StringData(got) != unsafe.StringData(text) || len(got) != len(text) {
			t.Errorf("got %q", got)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestAWriterScrubsWhatPasses(t *testing.T) {
	s := scrubber("hunter2hunter2")
	var out bytes.Buffer
	w := s.Writer(&out)
	for _, piece := range []string{"token hun", "ter2hunter2, and hunter2"} {
		if n, err := io.WriteString(w, piece); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := w.Close(); err != nil || out.String() != "token <redacted>, and hunter2" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	full := errors.New("full")
	w = s.Writer(failing{full})
	if n, err := io.WriteString(w, "text"); n != 0 || err != full || w.Close() != full {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestShortSecretsAreFoundInFewForms(t *testing.T) {
	s := secrets.NewScrubber()
	if err := s.AddSecret(secrets.NewValue(`p/"ü7`)); err != nil {
		t.Fatal(err)
	}
	if s.AddSecret(secrets.NewValue("abc")) == nil || s.AddSecret(secrets.Value{}) == nil {
		t.Error("what Check refuses was registered")
	}
	s.Add("1234567")
	var got []string
	for _, text := range []string{`p/"ü7`, `p\/\"\u00fc7`, `p/\u0022\u00FC7`, "p%2F%22%C3%BC7", "p/%22%c3%bc7",
		base64.StdEncoding.EncodeToString([]byte(`p/"ü7`)), fmt.Sprintf("%x", `p/"ü7`), "1234567", "abc"} {
		got = append(got, s.String(text))
	}
	want := []string{"<redacted>", "<redacted>", "<redacted>", "<redacted>", "<redacted>", "cC8iw7w3", "702f22c3bc37", "1234567", "abc"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := s.AddSecret(secrets.NewValue("/usr/bin/secret")); err != nil || s.String("/usr/bin/secret") != "<redacted>" {
		t.Error("a resolved secret was taken for a path")
	}
}

func TestAValueIsFoundInWhatOtherEncodersWrite(t *testing.T) {
	const value = "p@s/w+o'r(d)~ 😀é\x7f\x01"
	s := scrubber(value)
	for encoder, text := range map[string]string{
		"encodeURIComponent":         "p%40s%2Fw%2Bo'r(d)~%20%F0%9F%98%80%C3%A9%7F%01",
		"encodeURI":                  "p@s/w+o'r(d)~%20%F0%9F%98%80%C3%A9%7F%01",
		"URLSearchParams":            "p%40s%2Fw%2Bo%27r%28d%29%7E+%F0%9F%98%80%C3%A9%7F%01",
		"Python quote":               "p%40s/w%2Bo%27r%28d%29~%20%F0%9F%98%80%C3%A9%7F%01",
		"Python quote_plus":          "p%40s%2Fw%2Bo%27r%28d%29~+%F0%9F%98%80%C3%A9%7F%01",
		"Python json.dumps":          `p@s/w+o'r(d)~ \ud83d\ude00\u00e9` + "\x7f" + `\u0001`,
		"PHP json_encode":            `p@s\/w+o'r(d)~ \ud83d\ude00\u00e9` + "\x7f" + `\u0001`,
		".NET JsonSerializer":        `p@s/w\u002Bo\u0027r(d)~ \uD83D\uDE00\u00E9\u007F\u0001`,
		"JSON.stringify":             "p@s/w+o'r(d)~ 😀é\x7f" + `\u0001`,
		"JSON.stringify twice":       "p@s/w+o'r(d)~ 😀é\x7f" + `\\u0001`,
		"Python json.dumps of dumps": `p@s/w+o'r(d)~ \\ud83d\\ude00\\u00e9` + "\x7f" + `\\u0001`,
	} {
		if got := s.String("<" + text + ">"); got != "<<redacted>>" {
			t.Errorf("%s: %q became %q", encoder, text, got)
		}
	}
}

func TestJSONInStringsIsRead(t *testing.T) {
	s := scrubber("hunter2/hunter2")
	for doc, want := range map[string]string{
		`"\"\\u0068unter2\\/hunter2\""`:                                            `"\"<redacted>\""`,
		`{"a":"{\"b\":\"{\\\"c\\\":\\\"x hunter2\\\\\/h\\\\u0075nter2 y\\\"}\"}"}`: `{"a":"{\"b\":\"{\\\"c\\\":\\\"x <redacted> y\\\"}\"}"}`,
		`{"\\u0068unter2/hunter2":"a \\q"}`:                                        `{"<redacted>":"a \\q"}`,
		`"C:\\users\\u0068ome \\ud83d \\u12"`:                                      `"C:\\users\\u0068ome \\ud83d \\u12"`,
	} {
		if got := string(s.JSON([]byte(doc))); got != want {
			t.Errorf("%s: got %s, want %s", doc, got, want)
		}
	}
}

func ExampleScrubber_Stream() {
	s := secrets.NewScrubber()
	s.Add("tok-4711-abcdef")
	st := s.Stream()
	for _, piece := range []string{"your token is tok-", "4711-abc", "def, keep it ", "safe"} {
		fmt.Printf("%q\n", st.Write(piece))
	}
	fmt.Printf("%q\n", st.Flush())
	// Output:
	// "your token is "
	// ""
	// "<redacted>, keep it "
	// "safe"
	// ""
}
