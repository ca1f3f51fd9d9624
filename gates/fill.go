package gates

import (
	"context"
	"encoding/base64"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/secrets"
)

// fillIn is the last gate: it makes the arguments as they are sent: references as the ids their server
// knows, blobs as their content, secrets as their values. They are checked
// against the schema once more. Nothing but the provider sees them.
func fillIn(ctx context.Context, f *flight) error {
	if len(f.specials) == 0 || f.handles {
		f.wire = f.call.Args
		return nil
	}
	values := make(map[string]string, len(f.specials))
	for i := range f.specials {
		s := &f.specials[i]
		value, err := f.value(ctx, s)
		if err != nil {
			return err
		}
		values[s.path] = value
	}
	w := rewriter{visit: func(path []string, v map[string]any) (any, bool) {
		if len(v) != 1 {
			return nil, false
		}
		value, ok := values[pointer(path)]
		return value, ok
	}}
	tree := w.rewrite(f.tree)
	if issues := f.entry.args.check(tree); len(issues) > 0 {
		return argsInvalid(issues...)
	}
	f.wire = schema.Encode(tree)
	return nil
}

// value is what a place in the arguments stands for.
func (f *flight) value(ctx context.Context, s *special) (string, error) {
	switch {
	case s.secret != "":
		return f.secret(ctx, s)
	case s.blob():
		return f.blob(ctx, s)
	}
	return s.ref.ID(), nil
}

func (f *flight) secret(ctx context.Context, s *special) (string, error) {
	if f.chain.secrets == nil {
		return "", fault.New(fault.SecretUnavailable, "secret %s has no resolver", fault.Quote(string(s.secret))).
			WithHint("Set the harness's Config.Secrets.")
	}
	v, err := f.resolve(ctx, secrets.Use{Ref: s.secret, Connection: string(f.call.Connection), Op: f.call.Op, Field: s.path})
	if err == nil {
		err = f.chain.scrub.AddSecret(v)
	}
	if err != nil {
		return "", fault.From(err, fault.SecretUnavailable)
	}
	return v.Reveal(), nil
}

func (f *flight) resolve(ctx context.Context, use secrets.Use) (v secrets.Value, err error) {
	defer f.contain("the resolver of secrets", &err)
	return f.chain.secrets.Resolve(ctx, use)
}

// blob reads a blob as the text that stands for it in arguments: text as it is,
// anything else as base64. A sensitive one goes only where the operation's
// schema says that it takes such.
func (f *flight) blob(ctx context.Context, s *special) (string, error) {
	if f.chain.blobs == nil {
		return "", f.noBlob(s, "blobs are not kept here")
	}
	r, info, err := f.chain.blobs.Open(ctx, s.ref.ID())
	if err != nil {
		return "", fault.From(err, fault.BlobUnavailable)
	}
	defer r.Close()
	mark, marked := f.entry.argMarks().At(s.path)
	if info.Sensitive && !(marked && mark.Sensitive) {
		return "", f.noBlob(s, "blob is sensitive, and the field does not say that it takes such")
	}
	if limit := int64(f.chain.maxResult); info.Size > limit {
		return "", f.noBlob(s, "blob has "+strconv.FormatInt(info.Size, 10)+" bytes, more than "+strconv.FormatInt(limit, 10))
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return "", fault.From(err, fault.BlobUnavailable)
	}
	if !marked && strings.HasPrefix(info.MIMEType, "text/") && utf8.Valid(data) {
		return string(data), nil
	}
	return base64.StdEncoding.EncodeToString(data), nil
}

func (f *flight) noBlob(s *special, why string) error {
	return &fault.Error{Code: fault.BlobUnavailable, Issues: []fault.Issue{{Path: s.path, Code: fault.BlobUnavailable, Message: why}}}
}
