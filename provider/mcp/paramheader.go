package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// keyParamHeader marks a property whose argument a client also sends as an
// HTTP header (MCP 2026-07-28, "Header-mirrored arguments").
const keyParamHeader = "x-mcp-header"

// paramHeader is an argument that is also sent as a header.
type paramHeader struct {
	header string   // its whole name
	path   []string // of the argument
}

// paramHeaders finds the headers that a tool's schema asks for, and says why
// they cannot be sent, "" if they can. Over HTTP a tool that asks for such ones
// must not be used.
func paramHeaders(schema json.RawMessage) (headers []paramHeader, why string) {
	if !bytes.Contains(schema, []byte(keyParamHeader)) {
		return nil, ""
	}
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return nil, ""
	}
	h := &headerCheck{seen: map[string]bool{}}
	h.object(root, true, nil)
	return h.found, h.why
}

// headerCheck walks a schema, and keeps what it found and the first thing that
// is wrong.
type headerCheck struct {
	seen  map[string]bool // names so far, in lower case
	found []paramHeader
	why   string
}

// object checks a schema. One that is not reached through properties alone
// describes no single argument, and may ask for none.
func (h *headerCheck) object(v any, plain bool, path []string) {
	schema, ok := v.(map[string]any)
	if !ok {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		switch value := schema[key].(type) {
		case map[string]any:
			if key == "properties" {
				h.properties(value, plain, path)
			} else {
				h.object(value, false, nil)
			}
		case []any:
			for _, element := range value {
				h.object(element, false, nil)
			}
		}
	}
}

func (h *headerCheck) properties(all map[string]any, plain bool, path []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if property, ok := all[name].(map[string]any); ok {
			if header, ok := property[keyParamHeader]; ok {
				h.property(name, header, property["type"], plain)
				if text, ok := header.(string); ok {
					h.found = append(h.found, paramHeader{header: headerParam + text, path: append(slices.Clone(path), name)})
				}
			}
		}
		h.object(all[name], plain, append(slices.Clone(path), name))
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

// mirrored are the headers of a call.
func (c *conn) mirrored(op string, args json.RawMessage) http.Header {
	wanted := (*c.mirror.Load())[op]
	if len(wanted) == 0 {
		return nil
	}
	headers := http.Header{}
	for _, p := range wanted {
		if text, ok := headerText(lookup(args, p.path)); ok {
			headers.Set(p.header, encodeHeader(text))
		}
	}
	return headers
}

// lookup finds an argument by its path, nil if it is not there.
func lookup(args json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		var fields map[string]json.RawMessage
		if json.Unmarshal(args, &fields) != nil {
			return nil
		}
		args = fields[name]
	}
	return args
}

// maxHeaderInt bounds integers in headers to what every language holds exactly.
const maxHeaderInt = 1<<53 - 1

// headerText is an argument as a header says it; null and what has no such form
// is left out.
func headerText(raw json.RawMessage) (text string, ok bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		err := json.Unmarshal(raw, &text)
		return text, err == nil
	case 't', 'f':
		return string(raw), true
	case 'n', '{', '[':
		return "", false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != float64(int64(f)) || f > maxHeaderInt || f < -maxHeaderInt {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}
