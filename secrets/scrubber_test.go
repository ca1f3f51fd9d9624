package secrets_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/google/go-cmp/cmp"
)

const secret = `p@ss/w"ord ü<&>`

func scrubber(values ...string) *secrets.Scrubber {
	s := secrets.NewScrubber()
	for _, v := range values {
		s.Add(v)
	}
	return s
}

func TestAValueIsFoundInEveryForm(t *testing.T) {
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	inner := string(quoted[1 : len(quoted)-1])
	forms := map[string]string{
		"plain":            secret,
		"JSON":             `p@ss/w\"ord ü<&>`,
		"JSON for HTML":    inner,
		"JSON with slash":  strings.ReplaceAll(inner, "/", `\/`),
		"query":            url.QueryEscape(secret),
		"path":             url.PathEscape(secret),
		"query, small hex": strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(secret), "%2F", "%2f"), "%3C", "%3c"),
		"hex":              hex.EncodeToString([]byte(secret)),
		"HEX":              strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	forms["query, small hex"] = strings.NewReplacer("%2F", "%2f", "%3C", "%3c", "%3E", "%3e", "%C3%BC", "%c3%bc").Replace(url.QueryEscape(secret))
	s := scrubber(secret)
	for name, form := range forms {
		if got := s.String("a " + form + " z"); got != "a <redacted> z" {
			t.Errorf("%s: %q became %q", name, form, got)
		}
	}
	for before := range 3 {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			text := enc.EncodeToString([]byte("Basic"[:before] + secret + ":x"))
			if got := s.String(text); !strings.Contains(got, "<redacted>") || len(got) > len("<redacted>")+12 {
				t.Errorf("base64 at %d: %q became %q", before, text, got)
			}
		}
	}
}

func TestWhatIsNotRegistered(t *testing.T) {
	for _, value := range []string{"", "short", "1234567", "/usr/bin/node", "/Users/dora/notes", `C:\Windows\x`, "/var/lib", "redacted"} {
		s := scrubber(value)
		text := "has " + value + " inside"
		if got := s.String(text); got != text {
			t.Errorf("%q was registered: %q", value, got)
		}
	}
	for _, value := range []string{"12345678", "/a+Bcd/9XyZ0", "/Kx9fmPq0+zz", "c:no-path"} {
		if got := scrubber(value).String(value); got != "<redacted>" {
			t.Errorf("%q was not registered", value)
		}
	}
}

func TestOverlappingValuesLeaveNothingBehind(t *testing.T) {
	s := scrubber("abcdefgh", "cdefghijkl", "abcdefghij")
	for text, want := range map[string]string{
		"abcdefghijkl":           "<redacted>",
		"abcdefgh-abcdefghij":    "<redacted>-<redacted>",
		"xabcdefghx cdefghijkly": "x<redacted>x <redacted>y",
		"abcdefg":                "abcdefg",
	} {
		if got := s.String(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestCleanTextIsNotCopied(t *testing.T) {
	s := scrubber(secret, "another-secret")
	text := "nothing \\u0041 to see"
	if got := s.String(text); unsafe.StringData(got) != unsafe.StringData(text) {
		t.Error("the string was copied")
	}
	for _, doc := range []string{`{"a":"nothing"}`, ` {"a" : "\u00e9\/" , "n":1.50} `, `not JSON \`, ``} {
		raw := json.RawMessage(doc)
		got := s.JSON(raw)
		if string(got) != doc || unsafe.SliceData(got) != unsafe.SliceData(raw) {
			t.Errorf("%q became %q or was copied", doc, got)
		}
	}
	err := fmt.Errorf("x: %w", io.EOF)
	if got := s.Error(err); got != err {
		t.Errorf("got %v", got)
	}
	if s.Error(nil) != nil {
		t.Error("nil became an error")
	}
}

func TestJSONStaysJSON(t *testing.T) {
	s := scrubber("hunter2hunter2", "1234567890123", `{"type":"key"}`)
	for doc, want := range map[string]string{
		`{"a": "x hunter2hunter2 y", "b":1.50}`:        `{"a": "x <redacted> y", "b":1.50}`,
		`"\u0068unter2hunter2"`:                        `"<redacted>"`,
		`["h\u0075nter2hunter2\n"]`:                    `["<redacted>\n"]`,
		`{"hunter2hunter2":1,"xhunter2hunter2":2}`:     `{"<redacted>":1,"<redacted>2":2}`,
		`{"n":91234567890123.5,"m":[1234567890123,1]}`: `{"n":"<redacted>","m":["<redacted>",1]}`,
		`"{\"k\":\"hunter2hunter2\"}"`:                 `"{\"k\":\"<redacted>\"}"`,
		`{"creds":{"type":"key"}}`:                     `"<redacted>"`,
		`{"creds":"{\"type\":\"key\"}"}`:               `{"creds":"<redacted>"}`,
		`not JSON hunter2hunter2`:                      `not JSON <redacted>`,
		`{"a":1,"a":"hunter2hunter2"}`:                 `{"a":1,"a":"<redacted>"}`,
	} {
		if got := s.JSON(json.RawMessage(doc)); string(got) != want {
			t.Errorf("%s: got %s, want %s", doc, got, want)
		}
	}
}

func TestBytesAreSearched(t *testing.T) {
	s := scrubber("hunter2hunter2")
	if !s.Bytes([]byte("\x00\xffhunter2hunter2\x00")) || s.Bytes([]byte("\x00hunter2")) || s.Bytes(nil) {
		t.Error("wrong answer")
	}
	if secrets.NewScrubber().Bytes([]byte("hunter2hunter2")) {
		t.Error("an empty scrubber found something")
	}
}

type custom struct{ text string }

func (c *custom) Error() string { return c.text }

// texts collects every text that unwrapping reaches.
func texts(err error) []string {
	if err == nil {
		return nil
	}
	all := []string{err.Error(), fmt.Sprintf("%+v", err)}
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		all = append(all, texts(x.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, sub := range x.Unwrap() {
			all = append(all, texts(sub)...)
		}
	}
	return all
}

func TestErrorsKeepTheirCodesAndLoseTheValue(t *testing.T) {
	const value = "hunter2hunter2"
	s := scrubber(value)
	leaf := &custom{"bad token " + value}
	clean := &custom{"clean"}
	original := &fault.Error{
		Code: fault.StepFailed, Connection: "notes", Op: "add", Step: "a " + value, Hint: "do not use " + value, PeerCode: value,
		Issues: []fault.Issue{{Path: "/" + value, Message: value}},
		Err: errors.Join(
			fmt.Errorf("call: %w: %w", fault.New(fault.OutcomeUnknown, "sent %s: %w", value, context.DeadlineExceeded), leaf),
			clean, fault.Guarded),
	}
	want := *original
	got := s.Error(original)
	for _, code := range []error{fault.StepFailed, fault.OutcomeUnknown, fault.Guarded, context.DeadlineExceeded, clean} {
		if !errors.Is(got, code) {
			t.Errorf("%v is lost", code)
		}
	}
	if fe, ok := errors.AsType[*fault.Error](got); !ok || fe.Connection != "notes" || len(fe.Issues) != 1 {
		t.Errorf("got %+v", got)
	}
	if _, ok := errors.AsType[*custom](got); !ok {
		t.Error("the clean error is lost")
	}
	if errors.Is(got, leaf) {
		t.Error("the error with the value is within reach")
	}
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(texts(got), string(data)) {
		if strings.Contains(text, value) {
			t.Errorf("the value is in %q", text)
		}
	}
	if diff := cmp.Diff(want.Issues, original.Issues); diff != "" || original.Step != want.Step {
		t.Errorf("the original was changed: %s", diff)
	}
}

type deadline struct{ text string }

func (d *deadline) Error() string        { return d.text }
func (d *deadline) Is(target error) bool { return target == context.DeadlineExceeded }

func TestAContextErrorByMethodSurvives(t *testing.T) {
	if got := scrubber("hunter2hunter2").Error(&deadline{"late for hunter2hunter2"}); !errors.Is(got, context.DeadlineExceeded) {
		t.Errorf("got %v", got)
	}
}

func TestAddIsEffectiveAtOnceForEveryone(t *testing.T) {
	s := secrets.NewScrubber()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				value := fmt.Sprintf("secret-%d-%d-value", i, j)
				s.Add(value)
				s.Add(value)
				if got := s.String("<" + value + ">"); got != "<<redacted>>" {
					t.Errorf("%s: got %s", value, got)
				}
			}
		})
	}
	wg.Wait()
}

func ExampleScrubber() {
	s := secrets.NewScrubber()
	s.Add("tok-4711-abcdef")
	fmt.Println(s.String("bad token tok-4711-abcdef"))
	fmt.Println(string(s.JSON(json.RawMessage(`{"auth":"tok-4711-abcdef","n":1}`))))
	err := s.Error(fault.New(fault.NotSent, "dial with tok-4711-abcdef"))
	fmt.Println(err, errors.Is(err, fault.NotSent))
	// Output:
	// bad token <redacted>
	// {"auth":"<redacted>","n":1}
	// dial with <redacted> [not_sent] true
}
