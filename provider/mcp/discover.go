package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

const (
	// maxPages bounds a list that never ends.
	maxPages = 1000
	// maxNotes bounds the remarks about one server.
	maxNotes = 50
	// maxName bounds the name of a tool; MCP allows 128 characters.
	maxName = 512
	// maxTools bounds the tools of one server, and likewise its resources. No
	// model could choose among so many.
	maxTools = 10_000
	// maxSchema bounds one schema in bytes.
	maxSchema = 1 << 20
	// maxDescription bounds one description, and the instructions, in bytes.
	maxDescription = 64 << 10
)

// tool is a Tool as the server wrote it.
type tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  struct {
		Title       string `json:"title"`
		ReadOnly    *bool  `json:"readOnlyHint"`
		Destructive *bool  `json:"destructiveHint"`
		Idempotent  *bool  `json:"idempotentHint"`
		OpenWorld   *bool  `json:"openWorldHint"`
	} `json:"annotations"`
}

// resource is a Resource or a ResourceTemplate as the server wrote it.
type resource struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MIMEType    string `json:"mimeType"`
	URI         string `json:"uri"`
	Template    string `json:"uriTemplate"`
}

// draft is a manifest in the making.
type draft struct {
	provider.Manifest
	headers bool                     // arguments may have to be sent as headers too
	mirror  map[string][]paramHeader // which, by operation
}

// note adds a remark for people.
func (d *draft) note(format string, args ...any) {
	if len(d.Notes) < maxNotes {
		d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
	}
}

// discover fetches the lists that the server's capabilities name.
func (c *conn) discover(ctx context.Context) (*provider.Manifest, error) {
	opened := c.session.InitializeResult()
	d := &draft{mirror: map[string][]paramHeader{}, headers: c.link.mirrors() && opened.ProtocolVersion >= versionModern}
	d.Instructions = d.text("instructions", opened.Instructions)
	caps := opened.Capabilities
	if caps == nil {
		caps = &sdk.ServerCapabilities{}
	}
	d.declared(declaration(caps))
	if caps.Tools != nil {
		if err := c.tools(ctx, d); err != nil {
			return nil, err
		}
	}
	d.vouched(c.vouched)
	if caps.Resources != nil {
		if err := c.resources(ctx, d); err != nil {
			return nil, err
		}
	}
	for _, text := range c.notes() {
		if text != "" {
			d.note("%s", text)
		}
	}
	c.mirror.Store(&d.mirror)
	return &d.Manifest, nil
}

func (c *conn) tools(ctx context.Context, d *draft) error {
	pages, err := c.pages(ctx, d, "tools/list", func(ctx context.Context, cursor string) (any, error) {
		return c.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
	})
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, raw := range items(d, pages, "tools") {
		var t tool
		if err := json.Unmarshal(raw, &t); err != nil {
			d.note("a tool was left out: %v", err)
			continue
		}
		if why := unusable(t.Name); why != "" {
			d.note("the tool %s was left out: its name %s", fault.Quote(t.Name), why)
			continue
		}
		if seen[t.Name] {
			d.note("the tool %s is listed twice; the first one counts", fault.Quote(t.Name))
			continue
		}
		seen[t.Name] = true
		if !d.mirrors(t) {
			continue
		}
		if len(d.Operations) == maxTools {
			d.note("the server has more than %d tools; the rest is missing", maxTools)
			break
		}
		d.Operations = append(d.Operations, d.operation(t))
	}
	return nil
}

// resources fetches resources and templates. A server that fails at it is
// still good for its tools.
func (c *conn) resources(ctx context.Context, d *draft) error {
	fixed, err := c.pages(ctx, d, "resources/list", func(ctx context.Context, cursor string) (any, error) {
		return c.session.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
	})
	if err != nil && !errors.Is(err, fault.OpFailed) {
		return err
	} else if err != nil {
		d.note("resources are left out: %v", err)
	}
	templates, err := c.pages(ctx, d, "resources/templates/list", func(ctx context.Context, cursor string) (any, error) {
		return c.session.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
	})
	if err != nil && !errors.Is(err, fault.OpFailed) {
		return err
	} else if err != nil && !notFound(err) {
		d.note("resource templates are left out: %v", err)
	}
	seen := map[string]bool{}
	for _, raw := range append(items(d, fixed, "resources"), items(d, templates, "resourceTemplates")...) {
		var r resource
		if err := json.Unmarshal(raw, &r); err != nil {
			d.note("a resource was left out: %v", err)
			continue
		}
		d.addRead(r, seen)
	}
	if len(seen) > maxTools {
		d.note("the server has more than %d resources; the rest is missing", maxTools)
	}
	return nil
}

// notFound reports the answer of a server that does not know a method, which
// for templates is as common as an empty list.
func notFound(err error) bool {
	fe, ok := errors.AsType[*fault.Error](err)
	return ok && fe.PeerCode == strconv.Itoa(jsonrpc.CodeMethodNotFound)
}

// pages fetches all pages of a list. An empty or repeated cursor ends it: the
// specification allows the former, but servers that send it mean the end.
func (c *conn) pages(ctx context.Context, d *draft, method string, list func(context.Context, string) (any, error)) ([]json.RawMessage, error) {
	var pages []json.RawMessage
	seen := map[string]bool{}
	for cursor := ""; ; {
		raw, err := c.exchange(ctx, nil, func(ctx context.Context, _ string) (any, error) { return list(ctx, cursor) })
		if err != nil {
			return nil, err
		}
		pages = append(pages, raw)
		var next struct {
			Cursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &next); err != nil {
			return nil, unreadable(err)
		}
		switch {
		case next.Cursor == "":
			return pages, nil
		case seen[next.Cursor]:
			d.note("%s repeats the cursor %s; the list was cut there", method, fault.Quote(next.Cursor))
			return pages, nil
		case len(pages) == maxPages:
			d.note("%s has more than %d pages; the rest is missing", method, maxPages)
			return pages, nil
		}
		cursor = next.Cursor
		seen[cursor] = true
	}
}

// items returns the elements of one field of all pages. Null lists and null
// elements count as nothing.
func items(d *draft, pages []json.RawMessage, field string) []json.RawMessage {
	var all []json.RawMessage
	for _, page := range pages {
		var fields map[string]json.RawMessage
		var list []json.RawMessage
		if json.Unmarshal(page, &fields) != nil {
			continue
		}
		if raw, ok := fields[field]; ok && json.Unmarshal(raw, &list) != nil {
			d.note("the field %s of a page is no list", field)
		}
		for _, item := range list {
			if string(item) != "null" {
				all = append(all, item)
			}
		}
	}
	return all
}

var specName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// unusable says why a name cannot be used, "" if it can.
func unusable(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return fmt.Sprintf("is longer than %d bytes", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
		return "holds control characters"
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) }):
		return "holds characters that nobody can see"
	}
	return ""
}

// text makes what a server says about itself fit to be shown: no control
// sequences, bounded.
func (d *draft) text(of, t string) string {
	if len(t) > maxDescription {
		d.note("the text of %s is cut after %d bytes", of, maxDescription)
		t = t[:maxDescription]
	}
	return clean(t)
}

// mirrors notes which arguments of a tool are sent as headers too, and reports
// whether the tool can be used.
func (d *draft) mirrors(t tool) bool {
	if !d.headers {
		return true
	}
	headers, why := paramHeaders(t.InputSchema)
	switch {
	case why != "":
		d.note("the tool %s was left out: %s", fault.Quote(t.Name), why)
		return false
	case headers != nil:
		d.mirror[t.Name] = headers
	}
	return true
}

func (d *draft) operation(t tool) provider.Operation {
	if !specName.MatchString(t.Name) {
		d.note("the name of the tool %s is not one that MCP allows", fault.Quote(t.Name))
	}
	op := provider.Operation{
		Name: t.Name, Title: d.text("the tool "+fault.Quote(t.Name), t.Title),
		Description: d.text("the tool "+fault.Quote(t.Name), t.Description),
		Args:        d.schema(t.Name, "inputSchema", t.InputSchema),
		Result:      d.schema(t.Name, "outputSchema", t.OutputSchema),
		Hints: provider.Hints{
			ReadOnly: t.Annotations.ReadOnly, Destructive: t.Annotations.Destructive,
			Idempotent: t.Annotations.Idempotent, OpenWorld: t.Annotations.OpenWorld,
		},
	}
	if op.Title == "" {
		op.Title = d.text("the tool "+fault.Quote(t.Name), t.Annotations.Title)
	}
	return op
}

// schema returns a schema whole, as the server wrote it, nil for none.
func (d *draft) schema(tool, field string, raw json.RawMessage) json.RawMessage {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case raw[0] != '{':
		d.note("the %s of the tool %s is no object and was ignored", field, fault.Quote(tool))
		return nil
	case len(raw) > maxSchema:
		d.note("the %s of the tool %s has %d bytes, more than %d, and was ignored", field, fault.Quote(tool), len(raw), maxSchema)
		return nil
	}
	return raw
}
