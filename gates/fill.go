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

// fillIn is the last gate. It makes the arguments as they are sent: references as
// the ids their server knows, blobs as their content, secrets as their values.
// What the schema could not see before is checked now. Nothing but the provider
// sees it.
func fillIn(ctx context.Context, f *flight) error {
	if len(f.specials) == 0 || f.handles {
		f.wire = f.call.Args
		return nil
	}
	// Parts say nothing of a whole that did not fit before.
	tree, apart, room := f.shown, f.fits, int64(f.chain.maxResult)
	var issues []fault.Issue
	for i := range f.specials {
		s := &f.specials[i]
		if !s.unseen() {
			continue
		}
		value, err := f.value(ctx, s, room)
		if err != nil {
			return err
		}
		room -= int64(len(value))
		tree = schema.Replaced(tree, s.path, value)
		found, alone := f.entry.args.checkPart(s.path, value)
		issues, apart = append(issues, found...), apart && alone
	}
	if !apart {
		issues = f.entry.args.check(tree)
	}
	if len(issues) > 0 {
		return argsInvalid(issues...)
	}
	f.wire = schema.Encode(tree)
	return nil
}

// value is what a place stands for that the schema has not seen.
func (f *flight) value(ctx context.Context, s *special, room int64) (string, error) {
	if s.secret != "" {
		return f.secret(ctx, s)
	}
	return f.blob(ctx, s, room)
}

func (f *flight) secret(ctx context.Context, s *special) (string, error) {
	if f.chain.secrets == nil {
		err := fault.New(fault.SecretUnavailable, "secret %s has no resolver", fault.Quote(string(s.secret)))
		err.Issues = s.issue("names a secret, and there are none")
		return "", err.WithHint("Set the harness's Config.Secrets.")
	}
	v, err := f.chain.secrets.Resolve(ctx, secrets.Use{Ref: s.secret, Connection: string(f.call.Connection), Op: f.call.Op, Field: s.path})
	if err == nil {
		err = f.chain.scrub.AddSecret(v)
	}
	if err != nil {
		e := *fault.From(err, fault.SecretUnavailable)
		e.Issues = append(s.issue("cannot be filled in"), e.Issues...)
		return "", &e
	}
	return v.Reveal(), nil
}

func (s *special) issue(message string) []fault.Issue {
	return []fault.Issue{{Path: s.path, Code: fault.SecretUnavailable, Message: message}}
}

// blob reads a blob as the text that stands for it in arguments: text as it is,
// anything else as base64. A sensitive one goes only where the operation's
// schema says that it takes such, and all that is filled in together is bounded
// like a result: a handle is short and may be written many times.
func (f *flight) blob(ctx context.Context, s *special, room int64) (string, error) {
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
	if info.Size > room {
		return "", f.noBlob(s, "blob has "+strconv.FormatInt(info.Size, 10)+" bytes, and there is room for "+strconv.FormatInt(max(room, 0), 10))
	}
	data, err := io.ReadAll(io.LimitReader(r, info.Size))
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
