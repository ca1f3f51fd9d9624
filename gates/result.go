package gates

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

// checkResult checks the structured value: its size, that it is JSON, and the
// result schema, which is about the value alone and never about the content
// beside it. A value of null is no value.
func checkResult(_ context.Context, f *flight) {
	if f.out.Err != nil {
		f.drop()
		return
	}
	if len(f.out.Value) == 0 || string(f.out.Value) == "null" {
		f.out.Value = nil
	}
	if issues := f.resultIssues(); len(issues) > 0 {
		f.drop()
		f.out.Err = (&fault.Error{Code: fault.ResultInvalid, Issues: issues, Err: errors.New("the reply does not fit")}).
			WithHint("The operation was carried out; only its reply cannot be used.")
	}
}

// drop forgets a reply that comes with an error.
func (f *flight) drop() { f.out.Value, f.out.Content = nil, nil }

func (f *flight) resultIssues() []fault.Issue {
	value, s := f.out.Value, f.entry.result
	switch {
	case len(value) > f.chain.maxResult:
		return []fault.Issue{*tooLong(len(value), f.chain.maxResult)}
	case value == nil && s == nil:
		return nil
	case value == nil:
		return []fault.Issue{{Message: "is missing, though the operation declares one"}}
	case s == nil:
		if issue := schema.Valid(value, maxResultDepth); issue != nil {
			return []fault.Issue{*issue}
		}
		return nil
	}
	tree, issue := f.reply.of(value)
	if issue != nil {
		return []fault.Issue{*issue}
	}
	return s.check(tree)
}

// parsed is a text with its tree, so that what several stages look at is read once.
type parsed struct {
	text json.RawMessage
	tree any
}

// of returns the tree of a text, which is the same one as before in most cases.
func (p *parsed) of(text json.RawMessage) (any, *fault.Issue) {
	if p.text != nil && bytes.Equal(p.text, text) {
		return p.tree, nil
	}
	tree, issue := schema.Parse(text, maxResultDepth)
	if issue != nil {
		return nil, issue
	}
	p.text, p.tree = text, tree
	return tree, nil
}

// redact replaces credentials in everything that came back.
func redact(_ context.Context, f *flight) {
	scrub := f.chain.scrub
	f.out.Value = scrub.JSON(f.out.Value)
	f.out.Content = slices.Clone(f.out.Content) // a provider may give it to others as well
	for i := range f.out.Content {
		f.redactContent(&f.out.Content[i])
	}
	if f.out.Identity != nil {
		f.out.Identity = new(f.chain.Identity(*f.out.Identity))
	}
	if f.out.Err != nil {
		f.out.Err = scrub.Error(f.place(f.out.Err))
	}
}

func (f *flight) redactContent(b *provider.Content) {
	scrub := f.chain.scrub
	for _, text := range []*string{&b.Text, &b.MIMEType, &b.URI, &b.Name, &b.Title} {
		*text = scrub.String(*text)
	}
	if scrub.Bytes(b.Data) {
		b.Type, b.MIMEType, b.Data = provider.ContentText, "text/plain", nil
		b.Text = "[binary content withheld: it holds a credential]"
	}
}

// place says where a failure happened, on a copy: the error may be shared.
func (f *flight) place(err error) error {
	fe, ok := err.(*fault.Error)
	if !ok {
		fe = fault.From(err, fault.OutcomeUnknown)
	}
	e := *fe
	if e.Connection == "" {
		e.Connection = string(f.call.Connection)
	}
	if e.Op == "" {
		e.Op = f.call.Op
	}
	return &e
}

// truncate cuts content that is longer than MaxResult, with a notice in its
// place, and what a peer says about its failure.
func truncate(_ context.Context, f *flight) {
	f.truncateError()
	left := f.chain.maxResult - len(f.out.Value)
	for i := range f.out.Content {
		b := &f.out.Content[i]
		size := len(b.Text) + len(b.Data)
		if size <= left {
			left -= size
			continue
		}
		f.out.Content = append(slices.Clone(f.out.Content[:i]), shortened(*b, left, len(f.out.Content)-i-1))
		return
	}
}

// truncateError cuts what an error says, and sets the whole aside.
func (f *flight) truncateError() {
	if f.out.Err == nil {
		return
	}
	short := bounded(f.out.Err)
	if said := f.out.Err.Error(); len(said) > maxErrorText && len(short.Error()) < len(said) {
		f.out.Said = cutTo(said, f.chain.maxResult)
	}
	f.out.Err = short
}

// shortened is what remains of a block, with a notice for what is left out.
func shortened(b provider.Content, left, following int) provider.Content {
	if len(b.Data) > 0 {
		b = provider.Content{Type: provider.ContentText, Audience: b.Audience,
			Text: "[content left out: " + strconv.Itoa(len(b.Data)) + " bytes of " + b.MIMEType + "]"}
	} else {
		b.Text = cut(b.Text, left)
	}
	if following > 0 {
		b.Text += "\n[" + strconv.Itoa(following) + " more blocks left out]"
	}
	return b
}

func cut(text string, limit int) string {
	end := max(0, limit)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "\n[cut: " + strconv.Itoa(end) + " of " + strconv.Itoa(len(text)) + " bytes shown]"
}
