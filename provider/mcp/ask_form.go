package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

// maxQuestion bounds one question in bytes. A longer one is refused and not
// cut: nobody should agree to half a text.
const maxQuestion = 64 << 10

// elicitation is what a server asks (MCP, "Elicitation").
type elicitation struct {
	op       string // what made it ask, "" if that is not known
	message  string
	url      string          // "" for a form
	document json.RawMessage // the form as the server wrote it
	form     *form
}

// readElicitation reads the parameters of elicitation/create. Errors are for
// the server.
func readElicitation(op string, params json.RawMessage) (*elicitation, error) {
	if len(params) > maxQuestion {
		return nil, fmt.Errorf("the question has %d bytes, more than %d", len(params), maxQuestion)
	}
	var p struct {
		Mode    string          `json:"mode"`
		Message string          `json:"message"`
		URL     string          `json:"url"`
		Schema  json.RawMessage `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, errors.New("the question cannot be read: " + fieldError(err).Error())
	}
	e := &elicitation{op: op, message: p.Message}
	var err error
	switch p.Mode {
	case "url":
		e.url = p.URL
		err = checkQuestionURL(p.URL)
	case "", "form":
		if e.form, err = readForm(p.Schema); e.form != nil {
			e.document = p.Schema
		}
	default:
		err = errors.New("the mode " + fault.Quote(p.Mode) + " was not declared")
	}
	return e, err
}

// checkQuestionURL refuses what no browser should be sent to.
func checkQuestionURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return errors.New("the URL of the question is no http or https URL")
	}
	return nil
}

// question is what the host sees; it shares no memory with e.
func (e *elicitation) question() provider.Question {
	return provider.Question{Op: e.op, Message: e.message, Schema: bytes.Clone(e.document), URL: e.url}
}

// result is an answer as the server gets it. An error means that the answer
// cannot be sent.
func (e *elicitation) result(a *provider.Answer) (elicitResult, error) {
	if a == nil {
		return elicitResult{Action: actionDecline}, nil
	}
	switch a.Action {
	case provider.Decline:
		return elicitResult{Action: actionDecline}, nil
	case provider.Dismiss:
		return elicitResult{Action: actionCancel}, nil
	case provider.Accept:
		if e.url != "" {
			return elicitResult{Action: actionAccept}, nil
		}
		content, err := e.form.fill(a.Content)
		return elicitResult{Action: actionAccept, Content: content}, err
	}
	return elicitResult{}, fault.New(fault.ArgsInvalid, "an answer has the action %s", fault.Quote(string(a.Action)))
}

// form is what a form allows. A nil form has no fields.
type form struct {
	fields   map[string]formField
	compiled *schema.Schema
}

// formField is one field of a form.
type formField struct {
	format  string
	initial json.RawMessage // its default, nil for none
}

// readForm reads a requested schema, which is nil or a flat object of plain
// fields (MCP, "Requested Schema"). Of each field only the keywords that the
// specification has are looked at, so that no other can cost anything.
func readForm(document json.RawMessage) (*form, error) {
	if len(document) == 0 || string(document) == "null" {
		return nil, nil
	}
	var s struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(document, &s); err != nil {
		return nil, errors.New("the schema of the question cannot be read: " + fieldError(err).Error())
	}
	if s.Type != "object" && s.Type != "" {
		return nil, errors.New("the schema of the question is of no object")
	}
	f := &form{fields: map[string]formField{}}
	properties := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		keywords, field, err := readField(s.Properties[name])
		if err != nil {
			return nil, fmt.Errorf("the field %s of the question %w", fault.Quote(name), err)
		}
		properties[name], f.fields[name] = keywords, field
	}
	for _, name := range s.Required {
		if _, ok := f.fields[name]; !ok {
			return nil, fmt.Errorf("the question requires the field %s, which it does not have", fault.Quote(name))
		}
	}
	return f, f.compile(properties, s.Required)
}

// compile makes the schema that content is checked with.
func (f *form) compile(properties map[string]any, required []string) error {
	rules := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		slices.Sort(required)
		rules["required"] = slices.Compact(required)
	}
	document, err := json.Marshal(rules)
	if err != nil {
		return err // cannot happen: it was JSON before
	}
	f.compiled, err = schema.Compile(document)
	if err != nil {
		return fmt.Errorf("the schema of the question %w", err)
	}
	return nil
}

// fill completes content with the defaults of the fields that it leaves out
// (SEP-1034) and checks it.
func (f *form) fill(content json.RawMessage) (json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	if content = bytes.TrimSpace(content); len(content) > 0 && string(content) != "null" {
		if err := json.Unmarshal(content, &values); err != nil {
			return nil, fault.New(fault.ArgsInvalid, "the content of an answer is no JSON object")
		}
	}
	if f == nil {
		f = &form{}
	}
	for name, field := range f.fields {
		if _, given := values[name]; !given && field.initial != nil {
			values[name] = field.initial
		}
	}
	filled, err := json.Marshal(values)
	if err != nil {
		return nil, fault.New(fault.ArgsInvalid, "the content of an answer is no JSON: %w", err)
	}
	if issues := f.issues(values, filled); len(issues) > 0 {
		wrong := fault.New(fault.ArgsInvalid, "an answer does not fit its form")
		wrong.Issues = issues
		return nil, wrong
	}
	return filled, nil
}

// maxContentDepth is more than a flat object needs.
const maxContentDepth = 8

func (f *form) issues(values map[string]json.RawMessage, content json.RawMessage) []fault.Issue {
	if f.compiled == nil {
		if len(values) > 0 {
			return []fault.Issue{{Message: "the question has no form"}}
		}
		return nil
	}
	tree, issue := schema.Parse(content, maxContentDepth)
	if issue != nil {
		return []fault.Issue{*issue}
	}
	if issues := f.compiled.Validate(tree); len(issues) > 0 {
		return issues
	}
	pointer := strings.NewReplacer("~", "~0", "/", "~1") // RFC 6901
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if format := f.fields[name].format; format != "" && !fitsFormat(format, values[name]) {
			return []fault.Issue{{Path: "/" + pointer.Replace(name), Message: "is no " + format}}
		}
	}
	return nil
}

// fitsFormat checks the formats that a form may name.
func fitsFormat(format string, value json.RawMessage) bool {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return false
	}
	var err error
	switch format {
	case "email":
		var a *mail.Address
		if a, err = mail.ParseAddress(text); err == nil && a.Address != text {
			return false
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(text); err == nil && !u.IsAbs() {
			return false
		}
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	}
	return err == nil
}
