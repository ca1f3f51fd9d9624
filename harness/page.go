package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

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
		Description: "Reads a part of a result that was too long to be shown whole.", Args: json.RawMessage(pageArgs)}}
}

// offerPages adds the tool for the rest of long results once there is one: till
// then it would only cost tokens.
func (d *dialogue) offerPages() {
	if d.tools[pageTool].page || len(d.tools) == 0 || !d.r.x.h.paged(d.r.x.thread) {
		return
	}
	t := tool{page: true, spec: d.r.x.h.pager.spec}
	tools := map[string]tool{}
	for name, known := range d.tools {
		tools[name] = known
	}
	if _, taken := tools[pageTool]; taken {
		return
	}
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
		Blob          refs.Ref
		Offset, Limit int64
	}{Limit: defaultResultCap}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, fault.From(err, fault.ArgsInvalid)
	}
	r, info, err := h.blobs.Open(ctx, in.Blob.ID())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if info.Sensitive {
		return nil, fault.New(fault.BlobUnavailable, "%s", withheld)
	}
	if _, err := r.Seek(min(in.Offset, info.Size), io.SeekStart); err != nil {
		return nil, fault.From(err, fault.BlobUnavailable)
	}
	data, err := io.ReadAll(io.LimitReader(r, min(in.Limit, defaultResultCap)))
	if err != nil {
		return nil, fault.From(err, fault.BlobUnavailable)
	}
	data = whole(data)
	end := in.Offset + int64(len(data))
	text := fmt.Sprintf("%s\n[bytes %d to %d of %d]", data, in.Offset, end, info.Size)
	return encode(text), nil
}

// whole drops a character at the end that is not all there.
func whole(data []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if utf8.RuneStart(data[len(data)-i]) {
			if !utf8.FullRune(data[len(data)-i:]) {
				return data[:len(data)-i]
			}
			break
		}
	}
	return data
}

// paged reports whether something was cut off a result in a thread.
func (h *AgentHarness) paged(id ThreadID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cutIn[id]
}
