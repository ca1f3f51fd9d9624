package gates

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
)

// TerminalOptions configure a terminal approver. The zero value is the
// terminal that the program runs in.
type TerminalOptions struct {
	// In is where answers are read, one a line. Default os.Stdin, if that is a
	// terminal. It must not be read by anybody else.
	In io.Reader
	// Out is where questions are written. Default os.Stderr.
	Out io.Writer
}

// Terminal asks the person at the terminal that the program runs in. Without
// one, as under a service manager, every request is denied.
func Terminal() Approver { return NewTerminal(nil) }

// NewTerminal asks a person who reads one stream and writes another. Requests
// are shown one after another; the others wait. What comes from models and
// servers is shown in lines that begin with two spaces, without characters that
// steer a terminal. To allow takes the word that the question shows, so that no
// answer to an earlier question is taken for one to this.
//
// A read cannot be interrupted: one that is in progress when a request is
// decided elsewhere goes on in a goroutine, and what it reads answers the next
// question.
func NewTerminal(opts *TerminalOptions) Approver {
	var o TerminalOptions
	if opts != nil {
		o = *opts
	}
	if o.Out == nil {
		o.Out = os.Stderr
	}
	t := &terminal{out: o.Out, turn: make(chan struct{}, 1), lines: make(chan line, 1)}
	switch {
	case o.In != nil:
		t.in = bufio.NewReaderSize(o.In, maxAnswer)
	case interactive(os.Stdin):
		t.in = bufio.NewReaderSize(os.Stdin, maxAnswer)
	}
	return t
}

const (
	maxAnswer = maxForm + 1024 // bytes of one line of input
	maxTries  = 10             // answers that make no sense, before it is a no
)

func interactive(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// terminal is an Approver. What is below turn belongs to whoever put something
// into it.
type terminal struct {
	in   *bufio.Reader // nil without a person
	out  io.Writer
	turn chan struct{}

	lines   chan line
	reading bool // a read is in progress, whose line nobody took
}

// line is what one read brought.
type line struct {
	text string
	err  error
}

// Approve shows the request and waits for an answer.
func (t *terminal) Approve(ctx context.Context, a *Approval) (Decision, error) {
	if t.in == nil {
		return Decision{Verdict: Deny, Reason: "there is no terminal to ask at", By: byTerminal}, nil
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return Decision{}, ended(ctx)
	}
	p := newPrompt(a)
	if err := t.write(p.text()); err != nil {
		return Decision{}, err
	}
	for range maxTries {
		answer, err := t.read(ctx)
		if ctx.Err() != nil {
			_ = t.write("\n(This request does not wait any more.)\n")
			return Decision{}, ended(ctx)
		}
		if err != nil {
			return Decision{Verdict: Deny, Reason: "the terminal was closed", By: byTerminal}, nil
		}
		d, reply := p.judge(answer)
		if reply == "" {
			return d, nil
		}
		if err := t.write(reply); err != nil {
			return Decision{}, err
		}
	}
	return Decision{Verdict: Deny, Reason: "no answer that makes sense", By: byTerminal}, nil
}

const byTerminal = "terminal"

func (t *terminal) write(text string) error {
	_, err := io.WriteString(t.out, text)
	return err
}

// read returns the next line.
func (t *terminal) read(ctx context.Context) (string, error) {
	if !t.reading {
		t.reading = true
		go func() { t.lines <- readLine(t.in) }()
	}
	select {
	case l := <-t.lines:
		t.reading = false
		return l.text, l.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// readLine reads one line; of one that is too long nothing.
func readLine(in *bufio.Reader) line {
	raw, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		text := strings.TrimSpace(string(raw))
		if text != "" {
			err = nil // the last line may have no end
		}
		return line{text, err}
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return line{"", err}
}

// judge reads an answer. A reply asks again.
func (p *prompt) judge(answer string) (d Decision, reply string) {
	word, rest, _ := strings.Cut(answer, " ")
	rest = strings.TrimSpace(rest)
	d = Decision{By: byTerminal, Reason: rest}
	switch strings.ToLower(word) {
	case "n", "no":
		d.Verdict = Deny
		return d, ""
	case "g":
		d.Verdict = Guide
		if rest == "" {
			return d, "Say after the g what to do instead.\n" + asking
		}
		return d, ""
	case "a":
		return d, p.all()
	case "x":
		d.Scope = ThisExecution
		if !p.executionWide() {
			return d, p.unclear()
		}
		return p.allow(d, rest)
	case "y", "yes":
		return p.allow(d, rest)
	}
	return d, p.unclear()
}

// allow wants the word that was shown, and for a form its content after it.
func (p *prompt) allow(d Decision, rest string) (Decision, string) {
	word, content, _ := strings.Cut(rest, " ")
	content = strings.TrimSpace(content)
	switch {
	case p.hidden > 0:
		return d, "Not all of it was shown: answer  a  first.\n" + asking
	case !strings.EqualFold(word, p.word):
		return d, p.unclear()
	}
	d.Verdict, d.Reason = Allow, ""
	if !p.form() {
		if content != "" {
			return d, p.unclear()
		}
		return d, ""
	}
	d.Args = json.RawMessage(content)
	if _, err := p.approval.settle(d); err != nil {
		return d, "The form cannot be taken:\n" + field("error", err.Error()) + asking
	}
	return d, ""
}
