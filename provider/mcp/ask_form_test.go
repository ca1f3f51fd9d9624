package mcp_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
)

// TestAnswersAreCheckedAndCompleted covers each kind of field that a form may
// have. "" stands for an answer that is not sent.
func TestAnswersAreCheckedAndCompleted(t *testing.T) { // SEP-1034, SEP-1330
	t.Parallel()
	const titled = `[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]`
	tests := map[string]struct{ fields, required, answer, want string }{
		"default":                 {`"a":{"type":"string","default":"x"}`, ``, `{}`, `{"a":"x"}`},
		"default of each type":    {`"i":{"type":"integer","default":3},"b":{"type":"boolean","default":false},"n":{"type":"number","default":1.5}`, ``, `{}`, `{"b":false,"i":3,"n":1.5}`},
		"default of choices":      {`"l":{"type":"array","items":{"type":"string","enum":["r"]},"default":["r"]}`, ``, `{}`, `{"l":["r"]}`},
		"default for required":    {`"a":{"type":"string","default":"x"}`, `"a"`, ``, `{"a":"x"}`},
		"answer before default":   {`"a":{"type":"string","default":"x"}`, ``, `{"a":""}`, `{"a":""}`},
		"default of nothing":      {`"a":{"type":"string","default":null}`, ``, `null`, `{}`},
		"default that is wrong":   {`"a":{"type":"string","default":7}`, ``, `{}`, ``},
		"required is missing":     {`"a":{"type":"string"}`, `"a"`, `{}`, ``},
		"optional is missing":     {`"a":{"type":"string"}`, ``, `{}`, `{}`},
		"unknown field":           {`"a":{"type":"string"}`, ``, `{"b":"x"}`, ``},
		"no object":               {`"a":{"type":"string"}`, ``, `["x"]`, ``},
		"no JSON":                 {`"a":{"type":"string"}`, ``, `{"a`, ``},
		"wrong type":              {`"a":{"type":"integer"}`, ``, `{"a":1.5}`, ``},
		"too long":                {`"a":{"type":"string","maxLength":2}`, ``, `{"a":"xyz"}`, ``},
		"pattern":                 {`"a":{"type":"string","pattern":"^x"}`, ``, `{"a":"yx"}`, ``},
		"too large":               {`"a":{"type":"number","maximum":2}`, ``, `{"a":2.1}`, ``},
		"choice":                  {`"a":{"type":"string","enum":["r","g"]}`, ``, `{"a":"g"}`, `{"a":"g"}`},
		"no choice":               {`"a":{"type":"string","enum":["r","g"]}`, ``, `{"a":"b"}`, ``},
		"titled choice":           {`"a":{"type":"string","oneOf":` + titled + `}`, ``, `{"a":"g"}`, `{"a":"g"}`},
		"no titled choice":        {`"a":{"type":"string","oneOf":` + titled + `}`, ``, `{"a":"Green"}`, ``},
		"several choices":         {`"a":{"type":"array","items":{"anyOf":` + titled + `}}`, ``, `{"a":["g","r"]}`, `{"a":["g","r"]}`},
		"one of several is none":  {`"a":{"type":"array","items":{"anyOf":` + titled + `}}`, ``, `{"a":["g","b"]}`, ``},
		"too many choices":        {`"a":{"type":"array","maxItems":1,"items":{"type":"string","enum":["r","g"]}}`, ``, `{"a":["g","r"]}`, ``},
		"email":                   {`"a":{"type":"string","format":"email"}`, ``, `{"a":"ada@example.org"}`, `{"a":"ada@example.org"}`},
		"no email":                {`"a":{"type":"string","format":"email"}`, ``, `{"a":"Ada <ada@example.org>"}`, ``},
		"uri":                     {`"a":{"type":"string","format":"uri"}`, ``, `{"a":"urn:x:y"}`, `{"a":"urn:x:y"}`},
		"no uri":                  {`"a":{"type":"string","format":"uri"}`, ``, `{"a":"/x"}`, ``},
		"date":                    {`"a":{"type":"string","format":"date"}`, ``, `{"a":"2026-02-28"}`, `{"a":"2026-02-28"}`},
		"no date":                 {`"a":{"type":"string","format":"date"}`, ``, `{"a":"2026-02-30"}`, ``},
		"time":                    {`"a":{"type":"string","format":"date-time"}`, ``, `{"a":"2026-02-28T10:00:00Z"}`, `{"a":"2026-02-28T10:00:00Z"}`},
		"no time":                 {`"a":{"type":"string","format":"date-time"}`, ``, `{"a":"2026-02-28"}`, ``},
		"keywords no form has":    {`"a":{"type":"string","not":{},"allOf":[false],"$ref":"http://x"}`, ``, `{"a":"x"}`, `{"a":"x"}`},
		"pattern of another kind": {`"a":{"type":"string","pattern":"^(?=x)"}`, ``, `{"a":"y"}`, `{"a":"y"}`},
	}
	s := goodServer(nil)
	addQuestions(s)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connect(t, mcp.InMemory(s, nil), &host{ask: func(context.Context, *provider.Question) (*provider.Answer, error) {
				return accept(tt.answer), nil
			}})
			r := call(t, c, "ask", `{"message":"?","schema":{"type":"object","properties":{`+tt.fields+`},"required":[`+tt.required+`]}}`)
			want := `{"action":"cancel","content":null}`
			if tt.want != "" {
				want = `{"action":"accept","content":` + tt.want + `}`
			}
			if got := string(r.Value); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestFormsThatAreNone: what is not a flat object of plain fields is refused,
// whatever it would take to check an answer to it.
func TestFormsThatAreNone(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"no object":            `{"type":"string"}`,
		"list":                 `[]`,
		"nested":               `{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`,
		"list of anything":     `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`,
		"list without items":   `{"type":"object","properties":{"a":{"type":"array"}}}`,
		"two types":            `{"type":"object","properties":{"a":{"type":["string","null"]}}}`,
		"no type":              `{"type":"object","properties":{"a":{}}}`,
		"null":                 `{"type":"object","properties":{"a":null}}`,
		"true":                 `{"type":"object","properties":{"a":true}}`,
		"reference":            `{"type":"object","properties":{"a":{"$ref":"#"}}}`,
		"required unknown":     `{"type":"object","properties":{},"required":["a"]}`,
		"broken keyword":       `{"type":"object","properties":{"a":{"type":"string","minLength":"x"}}}`,
		"properties no object": `{"type":"object","properties":[1]}`,
	}
	s := goodServer(nil)
	addQuestions(s)
	c := connect(t, mcp.InMemory(s, nil), &host{ask: func(context.Context, *provider.Question) (*provider.Answer, error) {
		t.Error("the host was asked")
		return nil, nil
	}})
	for name, form := range tests {
		_, err := c.Call(within(t), &provider.CallRequest{Op: "ask", Args: json.RawMessage(`{"message":"?","schema":` + form + `}`)})
		if t.Log(name, err); err == nil {
			t.Errorf("%s: it was asked", name)
			continue
		}
		wantCode(t, err, fault.OpFailed)
	}
}
