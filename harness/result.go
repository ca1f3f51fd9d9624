package harness

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
)

// defaultResultCap is how many bytes of one result a model sees: some eight
// thousand tokens.
const defaultResultCap = 32 << 10

// result shows the outcome of a call to the model that made it.
func result(c model.Item, out *gates.Outcome, limit int) model.Item {
	if limit == 0 {
		limit = defaultResultCap
	}
	if out.Err != nil {
		return model.Result(c.CallID, c.Name, cut(failure(out.Err), limit), true)
	}
	it := model.Item{Type: model.ToolResult, CallID: c.CallID, Name: c.Name}
	var text []string
	told := false // a text stands for the value
	for _, b := range out.Content {
		if b.Type == provider.ContentImage {
			it.Parts = append(it.Parts, model.Part{Type: model.PartImage, Data: b.Data, MIMEType: b.MIMEType})
			continue
		}
		text = append(text, shown(b))
		told = told || b.Type == provider.ContentText
	}
	if !told && len(out.Value) > 0 {
		text = append([]string{string(out.Value)}, text...)
	}
	joined := strings.Join(text, "\n")
	if joined == "" && len(it.Parts) == 0 {
		joined = "null"
	}
	if joined != "" {
		it.Parts = append([]model.Part{{Type: model.PartText, Text: cut(joined, limit)}}, it.Parts...)
	}
	return it
}

// shown is a block of content as text.
func shown(b provider.Content) string {
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
