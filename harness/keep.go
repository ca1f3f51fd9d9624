package harness

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
)

// fit cuts a text to what a model may see of one result, and keeps the whole
// for it to read on, or to pass on.
func (d *dialogue) fit(ctx context.Context, call *gates.Call, text string, limit int) string {
	if limit < 0 || len(text) <= limit {
		return text
	}
	at := border(text, limit)
	short := fmt.Sprintf("%s\n[cut: %d of %d bytes shown]", text[:at], at, len(text))
	name := d.keep(ctx, call, "text/plain", []byte(text))
	if name == "" {
		return short
	}
	note := "\n[the whole is " + name + ": "
	if t, there := d.tools[pageTool]; t.page || !there {
		note += fmt.Sprintf("%s reads on from offset %d, and ", pageTool, at)
	}
	return short + note + standsFor(name) + "]"
}

// block is a block of content as text. Bytes that a model is not shown are kept
// for it to pass on.
func (d *dialogue) block(ctx context.Context, call *gates.Call, b provider.Content) string {
	switch {
	case b.Text != "" || b.Type == provider.ContentText:
		return b.Text
	case b.Type == provider.ContentLink:
		return fmt.Sprintf("[link %s %s]", b.Name, b.URI)
	}
	note := fmt.Sprintf("[%s %s, %d bytes, not shown", b.Type, b.MIMEType, len(b.Data))
	if len(b.Data) == 0 {
		return note + "]"
	}
	name := d.keep(ctx, call, b.MIMEType, b.Data)
	if name == "" {
		return note + "]"
	}
	return note + ": it is " + name + ", " + standsFor(name) + "]"
}

// standsFor tells a model how to pass a blob on.
func standsFor(name string) string {
	return fmt.Sprintf(`{"$ref":%q} as an argument passes it on`, name)
}

// keep puts data away as a blob and returns the name by which models know it,
// "" if it cannot be kept.
func (d *dialogue) keep(ctx context.Context, call *gates.Call, mimeType string, data []byte) string {
	x := d.r.x
	ref, err := x.h.chain.Keep(ctx, call, mimeType, data)
	name := ""
	if err == nil {
		name, err = x.h.aliases.Alias(ctx, string(x.thread), ref)
	}
	if err != nil {
		x.emit(event.Event{Type: event.Warning, Step: string(d.path), Text: "a long result could not be kept whole", Err: err})
		return ""
	}
	d.named = true
	return name
}

// border is the last place in a text, limit bytes or less from its beginning,
// that is no place within a character.
func border(text string, limit int) int {
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return limit
}
