package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
)

// recorded sends an error through JSON.
func recorded(t *testing.T, err *fault.Error) *fault.Error {
	t.Helper()
	data, jsonErr := json.Marshal(err)
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	back := new(fault.Error)
	if jsonErr := json.Unmarshal(data, back); jsonErr != nil {
		t.Fatalf("Unmarshal(%s): %v", data, jsonErr)
	}
	return back
}

func TestRecordedErrorsMatchTheSameCodes(t *testing.T) {
	opFailed := fault.New(fault.OpFailed, "no such page")
	targets := []error{context.Canceled, context.DeadlineExceeded}
	for _, code := range append(append([]fault.Code{}, configCodes...), runCodes...) {
		targets = append(targets, code)
	}
	cases := map[string]*fault.Error{
		"a code alone":              {Code: fault.Gap},
		"text":                      fault.New(fault.NotSent, "refused"),
		"a foreign cause":           fault.New(fault.NotSent, "dial: %w", io.EOF),
		"a nested Error":            fault.New(fault.StepFailed, "step: %w", opFailed),
		"nested twice":              fault.New(fault.LoopExhausted, "%w", fault.New(fault.StepFailed, "%w", opFailed)),
		"nested below foreign text": fault.New(fault.StepFailed, "a: %w", fmt.Errorf("b: %w", opFailed)),
		"joined":                    fault.New(fault.ForkPartial, "%w", errors.Join(opFailed, io.EOF, fault.New(fault.Gap, "lost"))),
		"joined below joined":       fault.New(fault.ForkPartial, "%w", errors.Join(errors.Join(opFailed), errors.Join(fault.Guarded))),
		"a bare code":               fault.New(fault.StepFailed, "%w", fault.Closed),
		"cancelled":                 fault.New(fault.StepFailed, "%w", context.Canceled),
		"a wrapped deadline":        fault.New(fault.Unavailable, "%w", fmt.Errorf("dial: %w", context.DeadlineExceeded)),
		"its own timeout":           fault.New(fault.Timeout, "30 s are over"),
	}
	for name, live := range cases {
		t.Run(name, func(t *testing.T) {
			back := recorded(t, live)
			for _, target := range targets {
				if got, want := errors.Is(back, target), errors.Is(live, target); got != want {
					t.Errorf("the recorded error matches %v: %v, the live one: %v", target, got, want)
				}
			}
			if back.Error() != live.Error() { //allow:errtext a record keeps the text
				t.Errorf("text = %q, want %q", back.Error(), live.Error())
			}
			if got, want := fault.CodeOf(errors.Unwrap(back)), fault.CodeOf(errors.Unwrap(live)); got != want {
				t.Errorf("code of the cause = %q, want %q", got, want)
			}
		})
	}
}

func TestRecordedErrorsKeepTheirFields(t *testing.T) {
	inner := fault.New(fault.OpFailed, "no such page").At("browser", "navigate")
	live := fault.New(fault.StepFailed, "step: %w", inner).At("web", "open").WithHint("Look at %d.", 1)
	live.Step, live.PeerCode = "main/2", "-32000"
	live.Issues = []fault.Issue{{Path: "/a~1b/0", Code: fault.ArgsInvalid, Message: "is too short"}, {Message: "whole"}}

	back := recorded(t, live)
	got, want := *back, *live
	got.Err, want.Err = nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	nested, ok := errors.AsType[*fault.Error](errors.Unwrap(back))
	if !ok || nested.Connection != "browser" || nested.Op != "navigate" {
		t.Errorf("nested error = %+v, want the one of the browser", nested)
	}
}

func TestBadJSONIsAnError(t *testing.T) {
	for _, data := range []string{"", "[]", `"op_failed"`, `{"code":1}`, `{"causes":{}}`, `{"code":"gap"`} {
		if err := json.Unmarshal([]byte(data), new(fault.Error)); err == nil {
			t.Errorf("Unmarshal(%q) = nil, want an error", data)
		}
	}
}

// FuzzJSON checks that whatever can be read is written and read again as the
// same, and that the texts and codes can be asked for.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"code":"gap"}`,
		`{}`,
		`{"code":"step_failed","text":"a: b","causes":[{"code":"op_failed","op":"click","connection":"web"}]}`,
		`{"code":"fork_partial","causes":[{"code":"cancelled"},{"code":"timeout","causes":[{"code":"gap","text":"x"}]}]}`,
		`{"code":"args_invalid","issues":[{"path":"/a","message":"m"},{"path":"","code":"gap","message":""}],"hint":"h","peerCode":"p","step":"s"}`,
		`{"code":"\ud800","text":"\u0000"}`,
		`{"text":"text without code","causes":[]}`,
		`null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first := new(fault.Error)
		if json.Unmarshal(data, first) != nil {
			return
		}
		second := recorded(t, first)
		if first.Error() != second.Error() { //allow:errtext a record keeps the text
			t.Errorf("text = %q, want %q", second.Error(), first.Error())
		}
		for _, code := range []fault.Code{first.Code, fault.Gap, fault.OpFailed, fault.Cancelled, fault.Timeout} {
			if got, want := errors.Is(second, code), errors.Is(first, code); got != want {
				t.Errorf("matches %s: %v, want %v", code, got, want)
			}
		}
		if got, want := fault.CodeOf(errors.Unwrap(second)), fault.CodeOf(errors.Unwrap(first)); got != want {
			t.Errorf("code of the cause = %q, want %q", got, want)
		}
	})
}
