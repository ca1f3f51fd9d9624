package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
)

// defaultResultCap is how many bytes of one result a model sees: some eight
// thousand tokens.
const defaultResultCap = 32 << 10

// maxResultDepth is how deep results are nested at most, as the gates have it.
const maxResultDepth = 512

// withheld stands where a model would see a sensitive blob.
const withheld = "[sensitive blob withheld]"

// result shows the outcome of a call to the model that made it.
func (d *dialogue) result(ctx context.Context, c model.Item, call *gates.Call, out *gates.Outcome, limit int) model.Item {
	if limit == 0 {
		limit = defaultResultCap
	}
	if out.Err != nil {
		return model.Result(c.CallID, c.Name, cut(failure(out.Err), limit), true)
	}
	it := model.Item{Type: model.ToolResult, CallID: c.CallID, Name: c.Name}
	text, images := d.shown(ctx, out)
	it.Parts = images
	if text == "" && len(images) == 0 {
		text = "null"
	}
	if text != "" {
		text = d.fit(ctx, call, text, limit)
		it.Parts = append([]model.Part{{Type: model.PartText, Text: text}}, it.Parts...)
	}
	return it
}

// shown is what came back as text and images. Where references were sealed,
// only the value is shown, since the content repeats them in the server's words.
func (d *dialogue) shown(ctx context.Context, out *gates.Outcome) (string, []model.Part) {
	if out.Sealed {
		value, err := d.aliased(ctx, out.Value)
		if err != nil {
			return failure(err), nil
		}
		return string(value), nil
	}
	var images []model.Part
	var text []string
	told := false // a text stands for the value
	for _, b := range out.Content {
		if b.Type == provider.ContentImage {
			images = append(images, model.Part{Type: model.PartImage, Data: b.Data, MIMEType: b.MIMEType})
			continue
		}
		text = append(text, block(b))
		told = told || b.Type == provider.ContentText
	}
	if !told && len(out.Value) > 0 {
		text = append([]string{string(out.Value)}, text...)
	}
	return strings.Join(text, "\n"), images
}

// aliased puts the short names that models know references by into a value.
func (d *dialogue) aliased(ctx context.Context, value json.RawMessage) (json.RawMessage, error) {
	tree, issue := schema.Parse(value, maxResultDepth)
	if issue != nil {
		return nil, &fault.Error{Code: fault.ResultInvalid, Issues: []fault.Issue{*issue}}
	}
	var all []refs.Ref
	collect := func(_ string, r refs.Ref, malformed error) (any, error) {
		if malformed == nil {
			all = append(all, r)
		}
		return nil, nil
	}
	if _, _, err := refs.Find(tree, collect); err != nil {
		return nil, err
	}
	names, err := d.r.x.h.aliases.AliasAll(ctx, string(d.r.x.thread), all)
	if err != nil {
		return nil, err
	}
	tree, _, err = refs.Find(tree, func(_ string, _ refs.Ref, malformed error) (any, error) {
		if malformed != nil {
			return nil, nil
		}
		name := names[0]
		names = names[1:]
		return map[string]any{"$ref": name}, nil
	})
	return schema.Encode(tree), err
}

// fit cuts a text to what a model may see of one result, and keeps the whole
// for it to read on.
func (d *dialogue) fit(ctx context.Context, call *gates.Call, text string, limit int) string {
	if limit < 0 || len(text) <= limit {
		return text
	}
	x := d.r.x
	call.Execution, call.Thread = x.id, x.thread
	ref, err := x.h.chain.Keep(ctx, call, "text/plain", []byte(text))
	alias := ""
	if err == nil {
		alias, err = x.h.aliases.Alias(ctx, string(x.thread), ref)
	}
	if err != nil {
		x.emit(event.Event{Type: event.Warning, Step: string(d.path), Text: "a long result could not be kept whole", Err: err})
		return cut(text, limit)
	}
	x.h.mu.Lock()
	x.h.cutIn[x.thread] = true
	x.h.mu.Unlock()
	return cut(text, limit) + fmt.Sprintf("\n[the whole is %s: %s reads it]", alias, pageTool)
}

// block is a block of content as text.
func block(b provider.Content) string {
	switch {
	case b.Text != "" || b.Type == provider.ContentText:
		return b.Text
	case b.Type == provider.ContentLink:
		return fmt.Sprintf("[link %s %s]", b.Name, b.URI)
	}
	return fmt.Sprintf("[%s %s, %d bytes, not shown]", b.Type, b.MIMEType, len(b.Data))
}

// failure tells a model what went wrong and whether it may try again.
func failure(err error) string {
	switch fault.CodeOf(err) {
	case fault.SteeringDenied:
		return "Tool call denied: " + err.Error()
	case fault.OutcomeUnknown:
		return "Error: it is not known whether this happened, so look before doing it again: " + err.Error()
	}
	return "Error: " + err.Error()
}

// cut shortens text to limit bytes on a character's border, and says so.
func cut(text string, limit int) string {
	if limit < 0 || len(text) <= limit {
		return text
	}
	at := limit
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return fmt.Sprintf("%s\n[cut: %d of %d bytes shown]", text[:at], at, len(text))
}
