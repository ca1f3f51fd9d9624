package gates

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/refs"
)

// sealMarks seals what the result's schema marks as references, and puts what
// it marks as blobs away. A result that cannot be sealed is not handed on.
func sealMarks(ctx context.Context, f *flight) {
	if f.out.Value == nil || f.entry == nil {
		return
	}
	if f.out.Identity != nil {
		f.call.Identity = *f.out.Identity // what answered may be another incarnation
	}
	value, err := f.seal(ctx, f.out.Value, f.entry.resultMarks())
	if err != nil {
		f.drop()
		f.out.Err = f.chain.scrub.Error(f.place(fault.From(err, fault.ResultInvalid)))
		return
	}
	f.out.Sealed = len(value) != len(f.out.Value) || !bytes.Equal(value, f.out.Value)
	f.out.Value = value
}

const (
	// maxSealed is how many references one result may have: each becomes a
	// hundred times as long as an id can be short.
	maxSealed = 100_000
	// maxPutAway is how many blobs one result may have: each is a write.
	maxPutAway = 1_000
)

// sealing counts what a result has of both.
type sealing struct{ refs, blobs int }

// seal returns value with references sealed and blobs put away, as marks say.
// What a server gave that cannot be is result_invalid.
func (f *flight) seal(ctx context.Context, value json.RawMessage, marks *refs.Marks) (out json.RawMessage, err error) {
	if marks == nil || f.chain.keys == nil || len(value) == 0 {
		return value, nil
	}
	defer f.contain("the store of blobs", &err)
	tree, issue := f.reply.of(value)
	if issue != nil {
		return nil, &fault.Error{Code: fault.ResultInvalid, Issues: []fault.Issue{*issue}}
	}
	var n sealing
	sealed, err := marks.Walk(tree, func(_ string, mark refs.Mark, v any) (any, error) {
		switch {
		case v == nil: // there is none
			return nil, nil
		case mark.Kind == refs.BlobKind:
			return f.putAway(ctx, mark, v, &n)
		}
		return f.sealRef(mark, v, &n)
	})
	switch {
	case errors.Is(err, fault.RefInvalid):
		return nil, &fault.Error{Code: fault.ResultInvalid, Err: err}
	case err != nil:
		return nil, err
	case n == sealing{}:
		return value, nil
	}
	return schema.Encode(sealed), nil
}

// sealRef seals the id that a server gave.
func (f *flight) sealRef(mark refs.Mark, v any, n *sealing) (any, error) {
	if n.refs++; n.refs > maxSealed {
		return nil, fault.New(fault.ResultInvalid, "the reply has more than %d references", maxSealed)
	}
	ref, err := mark.Ref(v)
	if err != nil {
		return nil, err
	}
	if ref, err = f.chain.keys.Seal(ref, f.scope(), mark.Volatile); err != nil {
		return nil, err
	}
	return written(ref)
}

// written is a reference as a part of a tree that is only to be encoded.
func written(ref refs.Ref) (any, error) {
	text, err := ref.MarshalJSON()
	return json.RawMessage(text), err
}

// putAway keeps a blob, which comes as base64, and returns its handle.
func (f *flight) putAway(ctx context.Context, mark refs.Mark, v any, n *sealing) (any, error) {
	if f.chain.blobs == nil {
		return nil, nil
	}
	if n.blobs++; n.blobs > maxPutAway {
		return nil, fault.New(fault.ResultInvalid, "the reply has more than %d blobs", maxPutAway)
	}
	text, ok := v.(string)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !ok {
		return nil, fault.New(fault.ResultInvalid, "a blob is not in base64, or held a credential that was replaced")
	}
	mime := "application/octet-stream"
	if len(mark.MIMETypes) == 1 {
		mime = mark.MIMETypes[0]
	}
	ref, err := f.chain.keep(ctx, &f.call, mime, data, mark.Sensitive)
	if err != nil {
		return nil, err
	}
	return written(ref)
}

// Keep puts data away as a blob that belongs to the execution of the call, and
// returns its handle, sealed for the call's thread. Data with a credential in it
// is not kept. Codes: blob_unavailable, store_failed.
func (c *Chain) Keep(ctx context.Context, call *Call, mimeType string, data []byte) (refs.Ref, error) {
	if c.blobs == nil || c.keys == nil {
		return refs.Ref{}, fault.New(fault.BlobUnavailable, "blobs are not kept here")
	}
	return c.keep(ctx, call, mimeType, data, false)
}

func (c *Chain) keep(ctx context.Context, call *Call, mimeType string, data []byte, sensitive bool) (refs.Ref, error) {
	if c.scrub.Bytes(data) {
		return refs.Ref{}, fault.New(fault.BlobUnavailable, "the blob holds a credential and is not kept")
	}
	info, err := c.blobs.Put(ctx, refs.BlobInfo{MIMEType: mimeType, Sensitive: sensitive,
		Owner: string(call.Execution), Thread: string(call.Thread)}, bytes.NewReader(data))
	if err != nil {
		return refs.Ref{}, fault.From(err, fault.BlobUnavailable)
	}
	from := string(call.Connection)
	if from == "" {
		from = "-" // of a Go tool
	}
	return c.keys.Seal(info.Ref(), refs.Scope{Connection: from, Thread: string(call.Thread)}, false)
}

// argMarks and resultMarks are what the schemas mark.
func (e *entry) argMarks() *refs.Marks    { return e.argsRead.read(e.def.Args, e.note("arguments")) }
func (e *entry) resultMarks() *refs.Marks { return e.resultRead.read(e.def.Result, e.note("result")) }

// marksOnce reads the marks of a schema when they are first needed.
type marksOnce struct {
	once  sync.Once
	marks *refs.Marks
}

func (m *marksOnce) read(document json.RawMessage, problem func(string)) *refs.Marks {
	m.once.Do(func() {
		var err error
		if m.marks, err = refs.ParseMarks(document); err != nil && problem != nil {
			problem("has marks that cannot be read, so that nothing is sealed: " + err.Error())
		}
	})
	return m.marks
}
