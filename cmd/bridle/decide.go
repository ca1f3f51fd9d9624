package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"github.com/bridle-dev/bridle/refs"
	"net/http"
	"net/url"
	"strings"
)

const (
	// shownDigest is how many digits of a digest are shown.
	shownDigest = 12
	// leastDigest is how many of them name an approval.
	leastDigest = 8
)

func runApprove(ctx context.Context, c *command) error {
	d := &decision{Verdict: "allow", Reason: c.reason, By: c.by}
	switch {
	case c.scope == "execution":
		d.Scope = "execution"
	case c.scope != "call":
		return misuse("the scope %q is unknown: there are call and execution", c.scope)
	}
	if c.form != "" {
		if d.Args = json.RawMessage(c.form); !json.Valid(d.Args) {
			return misuse("what -form gives is not JSON")
		}
	}
	s, err := c.dial(c.verb.name)
	if err != nil {
		return err
	}
	defer s.close()
	a, err := c.waiting(ctx, s)
	if err == nil {
		err = c.agree(a)
	}
	if err != nil {
		return err
	}
	d.Digest = a.Digest
	return c.decide(ctx, s, a, d, "allowed")
}

// waiting returns the approval that is meant, if it still waits.
func (c *command) waiting(ctx context.Context, s *socket) (*approval, error) {
	a, err := s.approval(ctx, c.args[0])
	if err != nil {
		return nil, err
	}
	if d := a.Decision; d != nil {
		return nil, fail(exitRefused, "approval_closed", "approval %s was decided before: %s by %s", a.ID, d.Verdict, d.By)
	}
	return a, nil
}

// agree has somebody say yes to what they see: on the command line, or when asked.
func (c *command) agree(a *approval) error {
	look := "Look at it with bridle approvals -o json, then run: bridle approve " + a.ID + " -digest " + cutDigest(a.Digest)
	switch {
	case c.digest != "" && (len(c.digest) < leastDigest || !strings.HasPrefix(a.Digest, c.digest)):
		return fail(exitRefused, "approval_closed", "approval %s has another digest", a.ID).hint("%s", look)
	case c.digest != "" || c.yes:
		return nil
	case !c.inTTY || !c.errTTY || c.format != formatTable && c.format != formatWide:
		return fail(exitRefused, "not_confirmed", "nobody said yes to approval %s", a.ID).hint("%s", look)
	case a.Preview != "":
		c.showApproval(a)
		return fail(exitRefused, "not_confirmed", "the arguments of approval %s are too long to be shown whole", a.ID).hint("%s", look)
	}
	c.showApproval(a)
	fmt.Fprint(c.err, "Allow "+c.extent()+"? [y/N] ")
	answer, _ := bufio.NewReader(c.in).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return fail(exitRefused, "not_confirmed", "approval %s was not given; it still waits", a.ID)
	}
	return nil
}

func (c *command) extent() string {
	if c.scope == "execution" {
		return "this operation until the execution ends"
	}
	return "this call once"
}

func cutDigest(digest string) string { return digest[:min(len(digest), shownDigest)] }

// showApproval shows all that is allowed, each value on lines of its own that
// nothing in it can end.
func (c *command) showApproval(a *approval) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(c.err, "%-10s %s\n", name, plain(value))
		}
	}
	line("approval", a.ID)
	line("call", a.call())
	line("of", thing(a.Identity))
	line("it says", a.Description)
	line("why", a.why())
	line("asked by", words(a.Execution, a.Step))
	line("arguments", string(a.Args)+a.Preview)
	if a.Question != nil {
		line("form", string(a.Question.Schema))
		line("address", a.Question.URL)
	}
	line("references", strings.Join(a.RefIDs, ", "))
	line("digest", cutDigest(a.Digest))
	line("expires", "in "+since(a.Expires.Sub(c.now())))
}

func runDeny(ctx context.Context, c *command) error {
	s, err := c.dial(c.verb.name)
	if err != nil {
		return err
	}
	defer s.close()
	a, err := c.waiting(ctx, s)
	if err != nil {
		return err
	}
	return c.decide(ctx, s, a, &decision{Verdict: "deny", Reason: c.reason, By: c.by, Digest: a.Digest}, "denied")
}

func runHappened(ctx context.Context, c *command) error {
	if c.output != "" && !json.Valid([]byte(c.output)) {
		return misuse("what -output gives is not JSON")
	}
	s, err := c.dial(c.verb.name)
	if err != nil {
		return err
	}
	defer s.close()
	a, err := c.waiting(ctx, s)
	switch {
	case err != nil:
		return err
	case !a.Doubt:
		return fail(exitRefused, "not_in_doubt", "approval %s is about a call that was not made before", a.ID).
			hint("Allow or deny it: bridle approve, bridle deny.")
	}
	return c.decide(ctx, s, a, &decision{Verdict: "happened", Reason: c.reason, By: c.by, Digest: a.Digest, Args: json.RawMessage(c.output)}, "noted as having happened:")
}

func (c *command) decide(ctx context.Context, s *socket, a *approval, d *decision, word string) error {
	decided := new(approval)
	if err := s.ask(ctx, http.MethodPost, within(a.ID), d, decided); err != nil {
		return err
	}
	decided.Args = refs.WithoutSeals(decided.Args)
	if printed, err := c.printOne(decided, decided.ID); printed {
		return err
	}
	_, err := fmt.Fprintln(c.out, plain(strings.Join([]string{word, a.ID, a.call(), "by", d.By}, " ")))
	return err
}

// aborted is what abort says.
type aborted struct {
	Thread    string `json:"thread"`
	Execution string `json:"execution"`
}

func runAbort(ctx context.Context, c *command) error {
	s, err := c.dial(c.verb.name)
	if err != nil {
		return err
	}
	defer s.close()
	c.remark("waiting for the turn to end")
	var done aborted
	err = s.ask(ctx, http.MethodPost, "/threads/"+url.PathEscape(c.args[0])+"/abort", map[string]string{"reason": c.reason}, &done)
	if err != nil {
		return err
	}
	if printed, err := c.printOne(done, done.Execution); printed {
		return err
	}
	_, err = fmt.Fprintln(c.out, plain("aborted "+done.Execution+" on thread "+done.Thread))
	return err
}
