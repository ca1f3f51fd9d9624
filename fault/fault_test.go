package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
)

func TestCodesMatchThroughWrapping(t *testing.T) {
	inner := fault.New(fault.OpFailed, "no such page: %w", io.ErrUnexpectedEOF)
	outer := fmt.Errorf("context: %w", fault.New(fault.StepFailed, "step one: %w", inner))
	for _, target := range []error{fault.OpFailed, fault.StepFailed, io.ErrUnexpectedEOF} {
		if !errors.Is(outer, target) {
			t.Errorf("%v does not match %v", outer, target)
		}
	}
	for _, target := range []error{fault.OpUnknown, fault.Cancelled, context.Canceled, io.EOF} {
		if errors.Is(outer, target) {
			t.Errorf("%v matches %v", outer, target)
		}
	}
}

func TestContextErrorsMatchTheirCodesOnly(t *testing.T) {
	all := []error{context.Canceled, context.DeadlineExceeded}
	for code, want := range map[fault.Code]error{
		fault.Cancelled: context.Canceled,
		fault.Timeout:   context.DeadlineExceeded,
		fault.NotSent:   nil,
	} {
		for _, target := range all {
			if got := errors.Is(&fault.Error{Code: code}, target); got != (target == want) {
				t.Errorf("an Error of code %s matches %v: %v, want %v", code, target, got, target == want)
			}
		}
	}
}

func TestCodeOfIsTheOutermost(t *testing.T) {
	opFailed := fault.New(fault.OpFailed, "no")
	cases := []struct {
		name string
		err  error
		want fault.Code
	}{
		{"nil", nil, ""},
		{"a foreign error", io.EOF, ""},
		{"a code", fault.Gap, fault.Gap},
		{"a wrapped code", fmt.Errorf("lost: %w", fault.Gap), fault.Gap},
		{"an Error", opFailed, fault.OpFailed},
		{"a wrapped Error", fmt.Errorf("call: %w", opFailed), fault.OpFailed},
		{"an Error in an Error", fault.New(fault.StepFailed, "step: %w", opFailed), fault.StepFailed},
		{"an Error around a context error", fault.New(fault.Unavailable, "%w", context.Canceled), fault.Unavailable},
		{"joined, a foreign error first", errors.Join(io.EOF, opFailed), fault.OpFailed},
		{"cancelled", context.Canceled, fault.Cancelled},
		{"a wrapped deadline", fmt.Errorf("read: %w", context.DeadlineExceeded), fault.Timeout},
	}
	for _, c := range cases {
		if got := fault.CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%s) = %q, want %q", c.name, got, c.want)
		}
	}
}

func TestFromKeepsWhatIsKnown(t *testing.T) {
	if got := fault.From(nil, fault.StoreFailed); got != nil {
		t.Errorf("From(nil) = %v, want nil", got)
	}
	own := fault.New(fault.Guarded, "ask first")
	if got := fault.From(own, fault.OpFailed); got != own {
		t.Errorf("From(*Error) = %v, want the same value", got)
	}
	cases := []struct {
		name string
		err  error
		want fault.Code
	}{
		{"a foreign error", io.EOF, fault.OpFailed},
		{"a wrapped Error", fmt.Errorf("call: %w", own), fault.Guarded},
		{"a context error", context.DeadlineExceeded, fault.Timeout},
	}
	for _, c := range cases {
		got := fault.From(c.err, fault.OpFailed)
		if got.Code != c.want || !errors.Is(got, c.err) {
			t.Errorf("From(%s) = %v, want code %s around the error", c.name, got, c.want)
		}
	}
}

func TestConfigTellsTheFamiliesApart(t *testing.T) {
	for _, code := range configCodes {
		if !code.Config() {
			t.Errorf("%s.Config() = false, want true", code)
		}
	}
	for _, code := range append(runCodes, "") {
		if code.Config() {
			t.Errorf("%q.Config() = true, want false", string(code))
		}
	}
}

func TestCodesAreDistinct(t *testing.T) {
	seen := map[fault.Code]bool{}
	for _, code := range append(append([]fault.Code{}, configCodes...), runCodes...) {
		if seen[code] {
			t.Errorf("two constants are spelled %s", code)
		}
		seen[code] = true
	}
}

func TestErrorShowsItsFields(t *testing.T) {
	issues := make([]fault.Issue, 12)
	for i := range issues {
		issues[i] = fault.Issue{Path: fmt.Sprintf("/field%d", i), Message: "is missing"}
	}
	err := fault.New(fault.ArgsInvalid, "bad arguments").At("browser", "click").WithHint("Pass a ref.")
	err.Step, err.PeerCode, err.Issues = "main/0", "-32602", issues
	text := err.Error()
	for _, part := range []string{"main/0", "click", "browser", "bad arguments", "args_invalid", "-32602", "Pass a ref.", "/field0"} {
		if !strings.Contains(text, part) {
			t.Errorf("the text %q does not show %q", text, part)
		}
	}
	if strings.Contains(text, "/field11") {
		t.Errorf("the text %q shows all of many issues", text)
	}
}

func TestQuoteIsBoundedAndOneLine(t *testing.T) {
	cases := []struct{ name, in string }{
		{"empty", ""},
		{"short", "a name"},
		{"at the limit", strings.Repeat("x", 120)},
		{"beyond the limit", strings.Repeat("x", 121)},
		{"flood", strings.Repeat("x", 1<<20)},
		{"long runes", strings.Repeat("é", 100)},
		{"invalid bytes", strings.Repeat("\x80", 500)},
		{"line breaks", "one\ntwo\r\x1b[31m"},
	}
	for _, c := range cases {
		got := fault.Quote(c.in)
		if len(got) > 600 || strings.ContainsAny(got, "\n\r\x1b") {
			t.Errorf("Quote(%s) = %d bytes, want one bounded line: %.80s", c.name, len(got), got)
		}
	}
	if got, want := fault.Quote("a name"), `"a name"`; got != want {
		t.Errorf("Quote = %s, want %s", got, want)
	}
	if long := fault.Quote(strings.Repeat("é", 100)); strings.Contains(long, `\x`) {
		t.Errorf("Quote cut a rune in two: %s", long)
	}
}

func TestNamesAreBounded(t *testing.T) {
	many := make([]string, 5000)
	for i := range many {
		many[i] = strings.Repeat("x", 1000)
	}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{nil, "none"},
		{[]string{"a"}, `"a"`},
		{[]string{"a", "b\n"}, `"a", "b\n"`},
		{strings.Split("abcdefghij", ""), `"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"`},
		{strings.Split("abcdefghijkl", ""), `"a", "b", "c", "d", "e", "f", "g", "h", "i", "j" and 2 more`},
	} {
		if got := fault.Names(c.names); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got := fault.Names(many); len(got) > 2000 {
		t.Errorf("%d bytes for many long names", len(got))
	}
}
