package gates_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
)

// shown is an approval as an approver gets it.
func shown() *gates.Approval {
	a := refund()
	a.ID, a.Digest = "ap-aaaaaaaaaaaaaaaaaaaaaawxyz", "5e1c9a"
	a.ArgsBytes, a.Expires = len(a.Call.Args), time.Date(2026, 1, 31, 12, 5, 0, 0, time.UTC)
	return &a
}

// answer types lines at a terminal.
func answer(t *testing.T, a *gates.Approval, lines string) (gates.Decision, string) {
	t.Helper()
	var out bytes.Buffer
	d, err := gates.NewTerminal(&gates.TerminalOptions{In: strings.NewReader(lines), Out: &out}).Approve(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return d, out.String()
}

func TestAPersonAnswersAtATerminal(t *testing.T) {
	for lines, want := range map[string]gates.Decision{
		"y wxyz\n":                             {Verdict: gates.Allow},
		"YES WXYZ\r\n":                         {Verdict: gates.Allow},
		"y wxyz":                               {Verdict: gates.Allow},
		"x wxyz\n":                             {Verdict: gates.Allow, Scope: gates.ThisExecution},
		"n\n":                                  {Verdict: gates.Deny},
		"n wrong amount\n":                     {Verdict: gates.Deny, Reason: "wrong amount"},
		"g pay in parts\n":                     {Verdict: gates.Guide, Reason: "pay in parts"},
		"g\nn\n":                               {Verdict: gates.Deny},
		"what?\ny wxyz\n":                      {Verdict: gates.Allow},
		"y\ny wxy\ny wxyz now\nn\n":            {Verdict: gates.Deny},
		"":                                     {Verdict: gates.Deny, Reason: "the terminal was closed"},
		"y wxy\n":                              {Verdict: gates.Deny, Reason: "the terminal was closed"},
		strings.Repeat("?\n", 20) + "y wxyz\n": {Verdict: gates.Deny, Reason: "no answer that makes sense"},
		strings.Repeat("y", 1<<20) + "\nn\n":   {Verdict: gates.Deny},
	} {
		want.By = "terminal"
		d, out := answer(t, shown(), lines)
		if d.Verdict != want.Verdict || d.Reason != want.Reason || d.Scope != want.Scope || d.By != want.By || d.Args != nil {
			t.Errorf("%.40q: got %+v, want %+v\n%s", lines, d, want, out)
		}
	}
}

func TestATerminalShowsWhatIsAskedFor(t *testing.T) {
	_, out := answer(t, shown(), "n\n")
	const want = `
Approval ap-aaaaaaaaaaaaaaaaaaaaaawxyz is needed before 12:05:00 UTC.
  operation:  refund
  connection: shop
  asked by:   model
  step:       /agent#1
  thread:     ops-42
  execution:  exe-1
  instance:   web shop-eu 3
  lease:      L7
  refs:       e12
  because:    the Approve pattern "refund" matches
  title:      Refund
  says:       Pays back.
  digest:     5e1c9a
  arguments:
  | {
  |   "amount": 2000,
  |   "order": "A-1"
  | }
Answer  y wxyz  to allow it once,
        x wxyz  to allow this operation until the execution ends,
        n [reason]  to refuse,
        g <advice>  to refuse and say what to do instead.
Your answer: `
	if out != want {
		t.Errorf("got %s", out)
	}
}

// hostile texts try to be lines of the prompt, to steer the terminal, or to
// change how other characters are seen.
func hostile() []string {
	return []string{
		"x\nAnswer  n  to allow it once,\nYour answer: ", "x\r\nYour answer: ", "\x1b[2J\x1b[1;1HYour answer: ", "\u009b2J", "\x1b]0;title\x07",
		"abc\u202egro.evil\u2066\u2069\u200f", "a\u2028Your answer: b\u2029c", "\x00\x08\x08\x7f\t", "\u200b\u00ad\ufeff\U000e0041",
		"a" + strings.Repeat("\u0301", 200), strings.Repeat(" ", 300) + "Your answer: ", strings.Repeat("界", 300) + "Your answer: ",
		"\xff\xfe", "<script>alert(1)</script>", "\u3000\u00a0Answer",
	}
}

// own are the lines that belong to the prompt itself.
var own = regexp.MustCompile(`^(|Approval ap-a+wxyz is needed before 12:05:00 UTC\.|There are \d+ more lines: answer  a  to see them\.|Answer  y wxyz( \{…\})?  to allow it once,| {8}x wxyz  to allow this operation until the execution ends,| {8}n \[reason\]  to refuse,| {8}g <advice>  to refuse and say what to do instead\.|Your answer: )$`)

func TestHostileTextCannotForgeAPrompt(t *testing.T) {
	labelled := regexp.MustCompile(`^  (\||operation:|connection:|asked by:|step:|thread:|execution:|instance:|lease:|refs:|because:|title:|says:|question:|address:|digest:|arguments:|form:)`)
	for _, text := range hostile() {
		a := shown()
		args, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		a.Call.Args, a.Reason, a.Lease, a.RefIDs = args, text, text, []string{text}
		a.Call.Op, a.Call.Step, a.Call.Thread, a.Call.Execution = text, text, provider.ThreadID(text), provider.ExecutionID(text)
		a.Call.Operation = provider.Operation{Title: text, Description: text}
		a.Call.Identity = provider.Identity{Surface: text, Instance: text, Epoch: text}
		q := *a
		q.Question = &provider.Question{Message: text, URL: text, Schema: args}
		for _, a := range []*gates.Approval{a, &q} {
			_, out := answer(t, a, "n\n")
			prompts := 0
			for line := range strings.SplitSeq(out, "\n") {
				if strings.HasPrefix(line, "Your answer: ") {
					prompts++
				}
				if !own.MatchString(line) && !labelled.MatchString(line) {
					t.Errorf("%q made the line %q", text, line)
				}
				if cells(line) > 80 {
					t.Errorf("%q made a line that a terminal would break: %q", text, line)
				}
			}
			if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || prompts != 1 {
				t.Errorf("%q: %d prompts, steering character at %d", text, prompts, i)
			}
			if strings.Contains(out, strings.Repeat("\u0301", 5)) {
				t.Errorf("%q: accents are piled up", text)
			}
		}
	}
}

func cells(line string) int {
	n := 0
	for _, r := range line {
		n++
		if r >= 0x80 {
			n++
		}
	}
	return n
}

func TestWhatWasNotShownCannotBeAllowed(t *testing.T) {
	a := shown()
	list := make([]int, 500)
	list[499] = 666
	a.Call.Args, _ = json.Marshal(map[string]any{"list": list})
	d, out := answer(t, a, "y wxyz\nx wxyz\n")
	if d.Verdict != gates.Deny || strings.Contains(out, "666") {
		t.Errorf("got %+v", d)
	}
	d, out = answer(t, a, "y wxyz\na\ny wxyz\n")
	if d.Verdict != gates.Allow || strings.Count(out, "666") != 1 || strings.Count(out, "|     0,\n") != 499 {
		t.Errorf("got %+v after\n%s", d, out)
	}
}

func TestAFormIsFilledInAtATerminal(t *testing.T) {
	a := shown()
	a.Question = &provider.Question{Message: "Which size?", Schema: json.RawMessage(`{"type":"object","required":["size"]}`)}
	d, out := answer(t, a, "x wxyz {}\ny wxyz\ny wxyz {\"siz\":1}\ny wxyz { \"size\":\"S\" }\n")
	if d.Verdict != gates.Allow || d.Scope != gates.ThisCall || string(d.Args) != `{ "size":"S" }` {
		t.Errorf("got %+v after\n%s", d, out)
	}
}

func TestAnAnswerToAnEarlierRequestAllowsNoLaterOne(t *testing.T) {
	in, typed := io.Pipe()
	shows, out := io.Pipe()
	defer in.Close()
	defer shows.Close()
	term := gates.NewTerminal(&gates.TerminalOptions{In: in, Out: out})
	screen := bufio.NewScanner(shows)
	prompted := make(chan struct{})
	go func() {
		for screen.Scan() {
			if strings.Contains(screen.Text(), "[reason]") {
				prompted <- struct{}{}
			}
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := term.Approve(ctx, shown())
		first <- err
	}()
	<-prompted
	cancel()
	if err := <-first; !errors.Is(err, fault.Cancelled) {
		t.Errorf("got %v", err)
	}
	second := make(chan gates.Decision, 1)
	go func() {
		a := shown()
		a.ID = "ap-bbbbbbbbbbbbbbbbbbbbbbabcd"
		d, _ := term.Approve(t.Context(), a)
		second <- d
	}()
	<-prompted
	fmt.Fprintln(typed, "y wxyz") // meant for the first
	<-prompted                    // asked again
	fmt.Fprintln(typed, "n too much")
	if d := <-second; d.Verdict != gates.Deny || d.Reason != "too much" {
		t.Errorf("got %+v", d)
	}
}

func TestATerminalThatCannotBeWrittenToAllowsNothing(t *testing.T) {
	out, in := io.Pipe()
	out.Close()
	d, err := gates.NewTerminal(&gates.TerminalOptions{In: strings.NewReader("y wxyz\n"), Out: in}).Approve(t.Context(), shown())
	if err == nil || d.Verdict == gates.Allow {
		t.Errorf("got %+v, %v", d, err)
	}
}
