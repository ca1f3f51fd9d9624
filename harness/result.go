package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
)

const (
	// defaultResultCap is how many bytes of one result a model sees: some eight
	// thousand tokens.
	defaultResultCap = 32 << 10
	// imageCap is how many bytes of images a model sees in one result. What they
	// cost depends on their pixels, not their bytes; services take 5 MB in base64.
	imageCap = 3 << 20
	// maxResultDepth is how deep results are nested at most, as the gates have it.
	maxResultDepth = 512
)

// withheld stands where a model would see a sensitive blob.
const withheld = "[sensitive blob withheld]"

// result shows the outcome of a call to the model that made it.
func (d *dialogue) result(ctx context.Context, c model.Item, call *gates.Call, out *gates.Outcome, limit int) model.Item {
	if limit == 0 {
		limit = defaultResultCap
	}
	call.Execution, call.Thread = d.r.x.id, d.r.x.thread
	if out.Err != nil {
		said := out.Said
		if said == "" {
			said = out.Err.Error()
		}
		text := heading(fault.CodeOf(out.Err)) + said
		return model.Result(c.CallID, c.Name, d.fit(ctx, call, text, limit), true)
	}
	it := model.Item{Type: model.ToolResult, CallID: c.CallID, Name: c.Name}
	text, images := d.shown(ctx, call, out, limit)
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

// shown is what came back as text and images. Where references were sealed, the
// value is shown and no text, since that repeats them in the server's words.
func (d *dialogue) shown(ctx context.Context, call *gates.Call, out *gates.Outcome, limit int) (string, []model.Part) {
	content, value := out.Content, written(out.Value, limit)
	if out.Sealed {
		aliased, sensitive, err := d.aliased(ctx, out.Value)
		if err != nil {
			return failure(err), nil
		}
		content, value = wordless(content, sensitive), aliased
	}
	var images []model.Part
	var text []string
	told := false // a text stands for the value
	room := max(limit, imageCap)
	for _, b := range content {
		if b.Type == provider.ContentImage && (limit < 0 || len(b.Data) <= room) {
			room -= len(b.Data)
			images = append(images, model.Part{Type: model.PartImage, Data: b.Data, MIMEType: b.MIMEType})
			continue
		}
		text = append(text, d.block(ctx, call, b))
		told = told || b.Type == provider.ContentText
	}
	if !told && value != "" {
		text = append([]string{value}, text...)
	}
	return strings.Join(text, "\n"), images
}

// wordless is the content that holds no words; none of it where a blob is
// sensitive, since it may show just that.
func wordless(content []provider.Content, sensitive bool) []provider.Content {
	var list []provider.Content
	for _, b := range content {
		if !sensitive && (b.Type == provider.ContentImage || b.Type == provider.ContentAudio) {
			list = append(list, b)
		}
	}
	return list
}

// aliased puts the short names that models know references by into a value, and
// says below it what the blobs are, and whether one is sensitive.
func (d *dialogue) aliased(ctx context.Context, value json.RawMessage) (text string, sensitive bool, err error) {
	tree, issue := schema.Parse(value, maxResultDepth)
	if issue != nil {
		return "", false, &fault.Error{Code: fault.ResultInvalid, Issues: []fault.Issue{*issue}}
	}
	var all []refs.Ref
	visit := func(do func(refs.Ref) any) (err error) {
		tree, _, err = refs.Find(tree, func(_ string, r refs.Ref, malformed error) (any, error) {
			if malformed != nil || d.r.x.h.chain.Issued(r, d.r.x.thread) != nil {
				return nil, nil // data, whatever it looks like
			}
			return do(r), nil
		})
		return err
	}
	if err := visit(func(r refs.Ref) any { all = append(all, r); return nil }); err != nil {
		return "", false, err
	}
	names, err := d.r.x.h.aliases.AliasAll(ctx, string(d.r.x.thread), all)
	if err != nil {
		return "", false, err
	}
	facts := d.facts(all, names)
	sensitive = slices.ContainsFunc(all, refs.Ref.Sensitive)
	err = visit(func(refs.Ref) any {
		name := names[0]
		names = names[1:]
		return map[string]any{"$ref": name}
	})
	return string(schema.Encode(tree)) + facts, sensitive, err
}

// facts says what the blobs among references are.
func (d *dialogue) facts(all []refs.Ref, names []string) string {
	var text strings.Builder
	for i, r := range all {
		switch {
		case r.Kind() != refs.BlobKind:
		case r.Sensitive():
			fmt.Fprintf(&text, "\n[%s: %s]", names[i], withheld)
		default:
			d.named = true
			fmt.Fprintf(&text, "\n[%s: %d bytes of %s]", names[i], r.Size(), r.MIMEType())
		}
	}
	return text.String()
}

// written is a value as a model reads it: JSON; a string that is too long to be
// shown as what it says, since it will be read and passed on in parts.
func written(value json.RawMessage, limit int) string {
	var text string
	if limit >= 0 && len(value) > limit && json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// failure tells a model what went wrong and whether it may try again.
func failure(err error) string { return heading(fault.CodeOf(err)) + err.Error() }

func heading(code fault.Code) string {
	switch code {
	case fault.SteeringDenied:
		return "Tool call denied: "
	case fault.OutcomeUnknown:
		return "Error: it is not known whether this happened, so look before doing it again: "
	}
	return "Error: "
}
