package mcp

import (
	"cmp"
	"encoding/json"

	"github.com/yosida95/uritemplate/v3"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// addRead turns a resource into a read named by its URI, or a template into
// one named by the template, with the template's variables as arguments.
func (d *draft) addRead(r resource, seen map[string]bool) {
	read := provider.Read{Name: r.URI, URI: r.URI, MIMEType: clean(r.MIMEType)}
	read.Title = d.text("the resource "+fault.Quote(r.URI+r.Template), cmp.Or(r.Title, r.Name))
	read.Description = d.text("the resource "+fault.Quote(r.URI+r.Template), r.Description)
	if r.Template != "" {
		template, err := uritemplate.New(r.Template)
		if err != nil {
			d.note("the resource template %s was left out: it is no RFC 6570 template", fault.Quote(r.Template))
			return
		}
		read.Name, read.URI = r.Template, ""
		read.Args = templateArgs(template)
	}
	if why := unusable(read.Name); why != "" {
		d.note("the resource %s was left out: its URI %s", fault.Quote(read.Name), why)
		return
	}
	if seen[read.Name] {
		d.note("the resource %s is listed twice; the first one counts", fault.Quote(read.Name))
		return
	}
	seen[read.Name] = true
	if len(d.Reads) == maxTools {
		return // noted once for all by resources
	}
	d.Reads = append(d.Reads, read)
}

// templateArgs is the schema of a template's variables: strings, all needed,
// since a server cannot be asked for half an address.
func templateArgs(t *uritemplate.Template) json.RawMessage {
	type property struct {
		Type string `json:"type"`
	}
	schema := struct {
		Type       string              `json:"type"`
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
		Additional bool                `json:"additionalProperties"`
	}{Type: "object", Properties: map[string]property{}, Required: t.Varnames()}
	for _, name := range schema.Required {
		schema.Properties[name] = property{"string"}
	}
	if schema.Required == nil {
		schema.Required = []string{}
	}
	raw, _ := json.Marshal(schema) // strings only: cannot fail
	return raw
}

// address is the URI that a read asks for. A name that is in no list goes to
// the server as it stands: lists need not be complete.
func (c *conn) address(req *provider.ReadRequest) (string, error) {
	read, ok := c.Manifest().Read(req.Name)
	if !ok || read.URI != "" || read.Args == nil {
		return req.Name, nil
	}
	template, err := uritemplate.New(read.Name)
	if err != nil {
		return "", provider.NotSent(fault.New(fault.ArgsInvalid, "%s is no RFC 6570 template", fault.Quote(read.Name)))
	}
	args := map[string]string{}
	if len(req.Args) > 0 {
		if err := json.Unmarshal(req.Args, &args); err != nil {
			return "", provider.NotSent(fault.New(fault.ArgsInvalid, "the variables of %s must be strings", fault.Quote(read.Name)))
		}
	}
	values := uritemplate.Values{}
	for name, value := range args {
		values.Set(name, uritemplate.String(value))
	}
	uri, err := template.Expand(values)
	if err != nil {
		return "", provider.NotSent(fault.New(fault.ArgsInvalid, "cannot fill %s: %v", fault.Quote(read.Name), err))
	}
	return uri, nil
}
