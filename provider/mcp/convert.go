package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// callResult is a CallToolResult as the server wrote it (MCP, "Tool Result").
type callResult struct {
	Meta       resultMeta      `json:"_meta"`
	Type       string          `json:"resultType"`
	Content    []contentBlock  `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

type resultMeta struct {
	Guarded *struct {
		Target string `json:"target"`
		Reason string `json:"reason"`
	} `json:"tools.noetic/guarded"`
	Identity *provider.Identity `json:"tools.noetic/identity"`
	Unknown  *struct {
		Reason string `json:"reason"`
	} `json:"tools.noetic/outcome-unknown"`
}

// UnmarshalJSON reads what it knows and ignores malformed values: _meta is
// for anyone to write to.
func (m *resultMeta) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	if raw, ok := all[metaGuarded]; ok && json.Unmarshal(raw, &m.Guarded) != nil {
		m.Guarded = nil
	}
	if raw, ok := all[metaIdentity]; ok && json.Unmarshal(raw, &m.Identity) != nil {
		m.Identity = nil
	}
	if raw, ok := all[metaUnknown]; ok && json.Unmarshal(raw, &m.Unknown) != nil {
		m.Unknown = nil
	}
	return nil
}

// contentBlock is a block of content, of any kind.
type contentBlock struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Data        []byte            `json:"data"`
	MIMEType    string            `json:"mimeType"`
	URI         string            `json:"uri"`
	Name        string            `json:"name"`
	Title       string            `json:"title"`
	Resource    *resourceContents `json:"resource"`
	Annotations struct {
		Audience []string `json:"audience"`
	} `json:"annotations"`
}

// resourceContents is one part of a resource: text or bytes.
type resourceContents struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType"`
	Text     *string `json:"text"`
	Blob     []byte  `json:"blob"`
}

// decodeCall reads the result of tools/call. A result that says that the tool
// failed is Refused or Guarded, or Unknown if that is what it says; one that is
// no result yet must not pass for an empty success.
func decodeCall(raw json.RawMessage) (*provider.CallResult, error) {
	var r callResult
	if err := decodeObject(raw, &r); err != nil {
		return nil, unreadable(err)
	}
	if err := checkType(r.Type); err != nil {
		return nil, err
	}
	if r.IsError {
		if g := r.Meta.Guarded; g != nil {
			return nil, provider.Guarded(plain(g.Target), plain(g.Reason))
		}
		if u := r.Meta.Unknown; u != nil {
			return nil, provider.Unknown(fmt.Errorf("the server does not know what became of it: %s", plain(u.Reason)))
		}
		return nil, provider.Refused("", failureText(r))
	}
	out := &provider.CallResult{Identity: r.Meta.Identity}
	if len(r.Structured) > 0 && string(r.Structured) != "null" {
		out.Value = r.Structured
	}
	for _, b := range r.Content {
		out.Content = append(out.Content, b.content())
	}
	return out, nil
}

// decodeObject reads a result, which null is not.
func decodeObject(raw json.RawMessage, into any) error {
	if string(raw) == "null" {
		return errors.New("it is null")
	}
	return json.Unmarshal(raw, into)
}

// unreadable is an answer that is not what MCP says. The server may have done
// what it was asked for all the same.
func unreadable(err error) error {
	return provider.Unknown(fault.New(fault.ResultInvalid, "cannot read the server's result: %w", err))
}

func checkType(resultType string) error {
	switch resultType {
	case "", resultComplete:
		return nil
	case resultTask:
		return provider.Unknown(fault.New(fault.ResultInvalid,
			"the server went on with the call as a task, which this client does not offer"))
	}
	return provider.Unknown(fault.New(fault.ResultInvalid, "the server's result is of the unknown type %s", fault.Quote(resultType)))
}

// failureText is what a failed tool said, whole: it may be the log of a build.
func failureText(r callResult) string {
	var texts []string
	for _, b := range r.Content {
		if b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	if len(texts) == 0 && len(r.Structured) > 0 {
		texts = append(texts, string(r.Structured))
	}
	if len(texts) == 0 {
		return "the tool failed without saying why"
	}
	return clean(strings.Join(texts, "\n"))
}

func (b contentBlock) content() provider.Content {
	c := provider.Content{
		Type: provider.ContentType(b.Type), Text: b.Text, Data: b.Data, MIMEType: b.MIMEType,
		URI: b.URI, Name: b.Name, Title: b.Title, Audience: b.Annotations.Audience,
	}
	switch c.Type {
	case provider.ContentText, provider.ContentImage, provider.ContentAudio, provider.ContentLink:
		return c
	case provider.ContentResource:
		if r := b.Resource; r != nil {
			part := r.content()
			part.Audience = c.Audience
			return part
		}
	}
	c.Type = provider.ContentText
	c.Text = fmt.Sprintf("[content of the unknown type %s left out]", fault.Quote(b.Type))
	return c
}

func (r resourceContents) content() provider.Content {
	c := provider.Content{Type: provider.ContentResource, URI: r.URI, MIMEType: r.MIMEType, Data: r.Blob}
	if r.Text != nil {
		c.Text = *r.Text
	}
	return c
}

// decodeRead reads the result of resources/read. A single JSON text becomes
// the value as well.
func decodeRead(raw json.RawMessage) (*provider.ReadResult, error) {
	var r struct {
		Meta     resultMeta         `json:"_meta"`
		Type     string             `json:"resultType"`
		Contents []resourceContents `json:"contents"`
	}
	if err := decodeObject(raw, &r); err != nil {
		return nil, unreadable(err)
	}
	if err := checkType(r.Type); err != nil {
		return nil, err
	}
	out := &provider.ReadResult{Identity: r.Meta.Identity}
	for _, part := range r.Contents {
		out.Content = append(out.Content, part.content())
	}
	if len(r.Contents) == 1 && isJSON(r.Contents[0]) {
		out.Value = json.RawMessage(*r.Contents[0].Text)
	}
	return out, nil
}

func isJSON(r resourceContents) bool {
	kind, _, err := mime.ParseMediaType(r.MIMEType)
	return err == nil && r.Text != nil &&
		(kind == "application/json" || strings.HasSuffix(kind, "+json")) &&
		json.Valid([]byte(*r.Text))
}
