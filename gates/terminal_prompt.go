package gates

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	asking     = "Your answer: "
	lineWidth  = 64 // cells of a line of a value, which with its label stays below 80
	maxLines   = 60 // lines that are shown before one has to ask for more
	labelWidth = 11
)

// prompt is how a request is shown.
type prompt struct {
	approval *Approval
	word     string   // what to answer with
	lines    []string // the arguments or the form
	hidden   int      // how many of them were not shown
}

func newPrompt(a *Approval) *prompt {
	p := &prompt{approval: a, word: string(a.ID[max(0, len(a.ID)-4):])}
	switch {
	case a.Question == nil && a.Call.Args == nil:
		p.lines = wrap(visible(a.Preview), lineWidth)
	case a.Question == nil:
		p.lines = pretty(a.Call.Args)
	case p.form():
		p.lines = pretty(a.Question.Schema)
	}
	p.hidden = max(0, len(p.lines)-maxLines)
	return p
}

// form tells that an answer has content.
func (p *prompt) form() bool {
	return p.approval.Question != nil && len(p.approval.Question.Schema) > 0
}

func (p *prompt) executionWide() bool {
	return p.approval.Question == nil && p.approval.Call.Execution != ""
}

// text is the whole question.
func (p *prompt) text() string {
	var b strings.Builder
	a := p.approval
	fmt.Fprintf(&b, "\nApproval %s is needed before %s UTC.\n", visible(string(a.ID)), a.Expires.UTC().Format("15:04:05"))
	b.WriteString(p.facts())
	if len(p.lines) > 0 {
		title := "arguments"
		if p.form() {
			title = "form"
		}
		fmt.Fprintf(&b, "  %s:\n", title)
		b.WriteString(block(p.lines[:len(p.lines)-p.hidden]))
	}
	if p.hidden > 0 {
		fmt.Fprintf(&b, "There are %d more lines: answer  a  to see them.\n", p.hidden)
	}
	b.WriteString(p.choices())
	return b.String()
}

// facts are who asks for what, and why.
func (p *prompt) facts() string {
	a, c := p.approval, &p.approval.Call
	var b strings.Builder
	for _, f := range []struct{ label, text string }{
		{"operation", c.Op}, {"connection", string(c.Connection)}, {"asked by", string(c.Source)},
		{"step", c.Step}, {"thread", string(c.Thread)}, {"execution", string(c.Execution)},
		{"instance", strings.TrimSpace(c.Identity.Surface + " " + c.Identity.Instance + " " + c.Identity.Epoch)},
		{"lease", a.Lease}, {"refs", strings.Join(a.RefIDs, " ")}, {"because", a.Reason},
		{"title", c.Operation.Title}, {"says", c.Operation.Description},
	} {
		b.WriteString(field(f.label, f.text))
	}
	if q := a.Question; q != nil {
		b.WriteString(field("question", q.Message) + field("address", q.URL))
	}
	b.WriteString(field("digest", a.Digest))
	return b.String()
}

// choices says what can be answered.
func (p *prompt) choices() string {
	yes := "y " + p.word
	if p.form() {
		yes += " {…}"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Answer  %s  to allow it once,\n", yes)
	if p.executionWide() {
		fmt.Fprintf(&b, "        x %s  to allow this operation until the execution ends,\n", p.word)
	}
	b.WriteString("        n [reason]  to refuse,\n        g <advice>  to refuse and say what to do instead.\n")
	return b.String() + asking
}

// all shows what was left out.
func (p *prompt) all() string {
	rest := block(p.lines[len(p.lines)-p.hidden:])
	p.hidden = 0
	return rest + p.choices()
}

func (p *prompt) unclear() string { return "That was not understood.\n" + p.choices() }

// field is one value with its label; nothing if there is no value.
func field(label, text string) string {
	if text == "" {
		return ""
	}
	lines := wrap(visible(text), lineWidth)
	return fmt.Sprintf("  %-*s %s\n", labelWidth, label+":", lines[0]) + block(lines[1:])
}

// block is lines of a value, of which none can pass for one of the prompt's own.
func block(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("  | " + l + "\n")
	}
	return b.String()
}

// pretty is JSON in lines.
func pretty(raw json.RawMessage) []string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return wrap(visible(string(raw)), lineWidth)
	}
	var lines []string
	for l := range strings.Lines(b.String()) {
		lines = append(lines, wrap(visible(strings.TrimSuffix(l, "\n")), lineWidth)...)
	}
	return lines
}
