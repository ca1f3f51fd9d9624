package gates

import (
	"encoding/json"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
)

// settle checks a decision about a and brings it into the form that is stored.
func (a *Approval) settle(d Decision) (Decision, error) {
	d.Reason, d.By = said(d.Reason, maxSaid), said(d.By, maxWho)
	switch d.Verdict {
	case Allow:
		return a.settleAllow(d)
	case Deny, Guide:
		d.Scope, d.Args = ThisCall, nil
		return d, nil
	case Happened:
		if a.Doubt {
			return a.settleHappened(d)
		}
	}
	return d, decisionInvalid(fault.Issue{Path: "/verdict", Message: "is " + fault.Quote(string(d.Verdict)) + ", want " + a.wanted()})
}

func (a *Approval) wanted() string {
	if a.Doubt {
		return "allow, deny, guide or happened"
	}
	return "allow, deny or guide"
}

// settleHappened takes what a doubtful call came to; without Args that is null.
func (a *Approval) settleHappened(d Decision) (Decision, error) {
	d.Scope = ThisCall
	if len(d.Args) == 0 {
		d.Args = json.RawMessage("null")
	}
	if len(d.Args) > maxForm {
		return d, decisionInvalid(fault.Issue{Path: "/args", Message: tooLong(len(d.Args), maxForm).Message})
	}
	canonical, _, issue := schema.Canonical(d.Args, maxArgsDepth)
	if issue != nil {
		return d, decisionInvalid(fault.Issue{Path: "/args" + issue.Path, Message: issue.Message})
	}
	d.Args = canonical
	return d, nil
}

func (a *Approval) settleAllow(d Decision) (Decision, error) {
	switch {
	case d.Scope != ThisCall && d.Scope != ThisExecution:
		return d, decisionInvalid(fault.Issue{Path: "/scope", Message: "is unknown"})
	case d.Scope == ThisExecution && a.Question != nil:
		return d, decisionInvalid(fault.Issue{Path: "/scope", Message: "must be for this call: a question is answered once"})
	case d.Scope == ThisExecution && a.Doubt:
		return d, decisionInvalid(fault.Issue{Path: "/scope", Message: "must be for this call: it may have been made before"})
	case d.Scope == ThisExecution && a.Call.Execution == "":
		return d, decisionInvalid(fault.Issue{Path: "/scope", Message: "must be for this call: it belongs to no execution"})
	}
	if a.Question != nil {
		form, err := a.settleForm(d.Args)
		d.Args = form
		return d, err
	}
	if d.Args != nil && !a.sameArgs(d.Args) {
		return d, decisionInvalid(fault.Issue{Path: "/args", Message: "differ from those that were asked for"})
	}
	d.Args = nil
	return d, nil
}

// sameArgs tells whether args are those that a is bound to, which may be kept as
// a preview only.
func (a *Approval) sameArgs(args json.RawMessage) bool {
	canonical, _, issue := schema.Canonical(args, maxArgsDepth)
	if issue != nil {
		return false
	}
	c := *a
	c.Call.Args = canonical
	return c.digest() == a.Digest
}

// settleForm checks the form that was filled in for a question.
func (a *Approval) settleForm(args json.RawMessage) (json.RawMessage, error) {
	if len(a.Question.Schema) == 0 {
		if len(args) > 0 {
			return nil, formInvalid(fault.Issue{Message: "are given, but the question has no form"})
		}
		return nil, nil
	}
	if len(args) > maxForm {
		return nil, formInvalid(*tooLong(len(args), maxForm))
	}
	canonical, tree, issue := schema.Canonical(args, maxFormDepth)
	if issue != nil {
		return nil, formInvalid(*issue)
	}
	if _, ok := tree.(map[string]any); !ok {
		return nil, formInvalid(fault.Issue{Message: "is not an object"})
	}
	if issues := NewSchema(a.Question.Schema).check(tree); len(issues) > 0 {
		return nil, formInvalid(issues...)
	}
	return canonical, nil
}

// formInvalid places findings about a form within the decision.
func formInvalid(issues ...fault.Issue) error {
	for i := range issues {
		issues[i].Path = "/args" + issues[i].Path
	}
	return decisionInvalid(issues...)
}

func decisionInvalid(issues ...fault.Issue) error {
	return &fault.Error{Code: fault.ArgsInvalid, Issues: issues, Err: errors.New("the decision cannot be taken")}
}
