package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// keyParamHeader marks a property whose argument a client also sends as an
// HTTP header (MCP 2026-07-28, "Header-mirrored arguments").
const keyParamHeader = "x-mcp-header"

// paramHeaders says why a tool's schema asks for headers that cannot be sent,
// "" if it does not. Over HTTP such a tool must not be used.
func paramHeaders(schema json.RawMessage) string {
	if !strings.Contains(string(schema), keyParamHeader) {
		return ""
	}
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return ""
	}
	h := &headerCheck{seen: map[string]bool{}}
	h.object(root, true)
	return h.why
}

// headerCheck walks a schema and keeps the first thing that is wrong.
type headerCheck struct {
	seen map[string]bool // names so far, in lower case
	why  string
}

// object checks a schema. One that is not reached through properties alone
// describes no single argument, and may ask for none.
func (h *headerCheck) object(v any, plain bool) {
	schema, ok := v.(map[string]any)
	if !ok {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		switch value := schema[key].(type) {
		case map[string]any:
			if key == "properties" {
				h.properties(value, plain)
			} else {
				h.object(value, false)
			}
		case []any:
			for _, element := range value {
				h.object(element, false)
			}
		}
	}
}

func (h *headerCheck) properties(all map[string]any, plain bool) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if property, ok := all[name].(map[string]any); ok {
			if header, ok := property[keyParamHeader]; ok {
				h.property(name, header, property["type"], plain)
			}
		}
		h.object(all[name], plain)
	}
}

func (h *headerCheck) property(name string, header, kind any, plain bool) {
	text, _ := header.(string)
	lower := strings.ToLower(text)
	why := ""
	switch {
	case !validName(text):
		why = "names no header"
	case h.seen[lower]:
		why = "names a header twice"
	case kind != "string" && kind != "integer" && kind != "boolean":
		why = "has no type that fits into a header"
	case !plain:
		why = "is no argument of its own"
	}
	h.seen[lower] = true
	if h.why == "" && why != "" {
		h.why = fmt.Sprintf("the %s of its property %s %s", keyParamHeader, quoteShort(name), why)
	}
}
