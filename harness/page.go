package harness

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
)

// pageTool is the tool with which models read what was cut off a result.
const pageTool = "read_blob"

// pageArgs is its schema: the gates open the handle, so that it reads nothing
// that its thread was not given.
const pageArgs = `{"type":"object","required":["blob"],"additionalProperties":false,"properties":{` +
	`"blob":{"type":"string","description":"The name of the blob, such as blob-1.","x-ref":{"kind":"blob"}},` +
	`"offset":{"type":"integer","minimum":0,"description":"Where to begin, in bytes. Default 0."},` +
	`"limit":{"type":"integer","minimum":1,"description":"How many bytes at most. Default and most: as many as one result may have."}}}`

// pager is the tool with its compiled schema.
type pager struct {
	spec   model.Tool
	schema *gates.Schema
}

func newPager() *pager {
	return &pager{schema: gates.NewSchema(json.RawMessage(pageArgs)), spec: model.Tool{Name: pageTool,
		Description: "Reads a part of a result that was too long to be shown whole, or of another blob. Bytes that are no text come in base64.", Args: json.RawMessage(pageArgs)}}
}

// offerPages adds the tool for what results were cut of, once the thread has a
// blob that models know by name: till then it would only cost tokens.
func (d *dialogue) offerPages(ctx context.Context) {
	if _, taken := d.tools[pageTool]; taken || len(d.tools) == 0 {
		return
	}
	if !d.named && d.round == 1 {
		// Without the store there is nothing to read either.
		_, d.named, _ = d.r.x.h.aliases.Resolve(ctx, string(d.r.x.thread), refs.BlobKind+"-1")
	}
	if !d.named {
		return
	}
	t := tool{page: true, spec: d.r.x.h.pager.spec}
	tools := maps.Clone(d.tools)
	tools[pageTool] = t
	d.tools, d.req.Tools = tools, append(d.req.Tools, t.spec)
}

// page reads a part of a blob for the model, through the gates.
func (d *dialogue) page(ctx context.Context, c model.Item, call gates.Call) model.Item {
	x := d.r.x
	call.Op, call.Execution, call.Thread = pageTool, x.id, x.thread
	call.Operation = provider.Operation{Name: pageTool, Description: x.h.pager.spec.Description, Args: json.RawMessage(pageArgs)}
	ev := event.Event{Type: event.ToolStarted, Step: call.Step, Op: pageTool, Source: string(call.Source), CallID: call.CallID, Key: call.Key}
	began := x.h.clock()
	x.emit(ev)
	out := x.h.chain.Tool(ctx, &gates.ToolRequest{Call: call, Args: x.h.pager.schema, Handles: true, Purse: x.purse,
		Invoke: func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			return x.h.readPage(ctx, args)
		}})
	ev.Type, ev.Err, ev.Gate, ev.Duration = event.ToolCompleted, out.Err, out.Gate, x.h.since(began)
	x.emit(ev)
	if out.Err != nil {
		return model.Result(c.CallID, c.Name, failure(out.Err), true)
	}
	var text string
	if err := json.Unmarshal(out.Value, &text); err != nil {
		return model.Result(c.CallID, c.Name, failure(err), true)
	}
	return model.Result(c.CallID, c.Name, text, false)
}

// readPage reads the part of a blob that the arguments ask for.
func (h *AgentHarness) readPage(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	in := struct {
		Blob json.RawMessage
		// The schema takes integers of any size.
		Offset, Limit float64
	}{Limit: defaultResultCap}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, fault.From(err, fault.ArgsInvalid)
	}
	var ref refs.Ref
	if err := json.Unmarshal(in.Blob, &ref); err != nil {
		return nil, pageIssue("/blob", "names no blob of this conversation")
	}
	r, info, err := h.blobs.Open(ctx, ref.ID())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	switch {
	case info.Sensitive:
		return nil, fault.New(fault.BlobUnavailable, "%s", withheld)
	case in.Offset > float64(info.Size):
		return nil, pageIssue("/offset", "is past the end: the blob has "+strconv.FormatInt(info.Size, 10)+" bytes")
	}
	p, err := readPart(r, int64(in.Offset), int(min(in.Limit, defaultResultCap)))
	if err != nil {
		return nil, fault.From(err, fault.BlobUnavailable)
	}
	return encode(p.shown(info.Size)), nil
}

func pageIssue(path, message string) error {
	return &fault.Error{Code: fault.ArgsInvalid, Issues: []fault.Issue{{Path: path, Message: message}}}
}
