package canary_test

import (
	"fmt"
	"strings"
	"sync"
)

// kept says where a program put a secret, and so how the harness knows it.
type kept string

const (
	byResolver   kept = "resolver"            // Config.Secrets
	byHeader     kept = "header"              // a header of the MCP server over HTTP
	byUserinfo   kept = "userinfo"            // the URL of another one
	byQuery      kept = "query"               // the same
	byEnv        kept = "env"                 // a variable of the MCP server over stdio
	byCredential kept = "credential"          // registered by a provider as it connects
	byBroken     kept = "broken server's URL" // of one that refuses to connect
)

// source is one secret: where it is kept, and what the scenario does with it.
type source struct {
	name string // how the scenario refers to it
	by   kept
	what string
}

// sources is the table. A new way in is a new row; the scenario must use it, or
// the test fails.
func sources() []source {
	return []source{
		{"resolver", byResolver, "filled in for a step and for a model, and shown by the server in every form"},
		{"short", byResolver, "the same with five bytes"},
		{"authorization", byHeader, "the token of an Authorization header"},
		{"api key", byHeader, "another header"},
		{"user", byUserinfo, "the user of a URL"},
		{"password", byUserinfo, "the password of a URL"},
		{"query", byQuery, "a query value of a URL"},
		{"env", byEnv, "a variable"},
		{"refusal", byBroken, "shown by a server that refuses to connect"},
		{"instructions", byHeader, "shown in a server's instructions"},
		{"description", byHeader, "shown in the description of a tool"},
		{"schema", byHeader, "shown in the schema of a tool"},
		{"late description", byResolver, "shown in a description that is announced after the value was used"},
		{"changed description", byHeader, "shown in a definition that is not the pinned one"},
		{"error text", byHeader, "shown in the text of a failed call"},
		{"long error", byHeader, "the same, at the place where errors are cut"},
		{"protocol error", byHeader, "shown in an error of the protocol"},
		{"progress", byHeader, "shown in reports of progress"},
		{"result text", byHeader, "shown in content"},
		{"structured", byHeader, "shown in a structured result, as a name and as a value"},
		{"image", byHeader, "inside the bytes of an image"},
		{"link", byHeader, "inside the address of a resource"},
		{"resource", byHeader, "inside a resource that is read"},
		{"long result", byHeader, "inside a result that is cut and paged"},
		{"question", byHeader, "inside a question to the user"},
		{"stderr", byEnv, "on the standard error of a server"},
		{"stdout", byEnv, "on its standard output, outside of any message"},
		{"last words", byEnv, "on the standard error of a server that ends"},
		{"identity", byCredential, "inside the instance that a server names"},
		{"blob", byCredential, "inside the bytes that a schema marks as a blob"},
		{"event", byCredential, "inside the payload of an event"},
		{"connect error", byCredential, "inside the error of a provider that cannot connect"},
		{"connect panic", byCredential, "inside the panic of one"},
		{"loss", byCredential, "inside the reason for which a connection is lost"},
		{"release error", byCredential, "inside the error of a release"},
		{"resolver error", byCredential, "inside the error of a resolver"},
		{"resolver panic", byCredential, "inside the panic of one"},
		{"filter panic", byCredential, "inside the panic of the filter of a wait"},
		{"provider panic", byCredential, "inside the panic of a provider"},
		{"hook panic", byCredential, "inside the panic of a hook that refuses"},
		{"open hook panic", byCredential, "inside the panic of a hook that fails open"},
		{"open hook error", byCredential, "inside the error of a hook that fails open"},
		{"hook reason", byCredential, "inside the reason of a hook"},
		{"tool panic", byCredential, "inside the panic of a Go tool"},
		{"tool error", byCredential, "inside the error of a Go tool"},
		{"tool result", byCredential, "inside the result of a Go tool"},
		{"tool description", byCredential, "inside the description of a Go tool"},
		{"approver panic", byCredential, "inside the panic of an approver"},
		{"approver error", byCredential, "inside the error of an approver"},
		{"approval reason", byCredential, "inside the reason of an approver"},
		{"denial reason", byCredential, "the same, for a denial"},
		{"approver name", byCredential, "inside the name of whoever decided"},
		{"typed reason", byCredential, "inside a reason that is sent to the approvals handler"},
		{"approved arguments", byCredential, "written plainly into arguments that need an approval"},
		{"meter panic", byCredential, "inside the panic of a meter"},
		{"sink panic", byCredential, "inside the panic of an audit sink"},
		{"sink error", byCredential, "inside the error of an audit sink"},
		{"model text", byCredential, "repeated by a model in its answer"},
		{"model arguments", byCredential, "written by a model into arguments"},
		{"model data", byCredential, "inside what a model's service wants back unread"},
		{"model error", byCredential, "inside the error of a model's service"},
		{"model panic", byCredential, "inside the panic of a model"},
		{"message", byCredential, "typed by the user"},
		{"instruction", byCredential, "written into the instructions of a model step"},
		{"step error", byCredential, "inside the error of a step written in Go"},
		{"step panic", byCredential, "inside the panic of a step written in Go"},
		{"abort reason", byCredential, "inside the reason of an abort"},
		{"trigger event", byCredential, "inside the payload of an event that a trigger accepts"},
		{"trigger panic", byCredential, "inside the panic of the filter of a trigger"},
		{"trigger error", byCredential, "inside the error of the input of a trigger"},
		{"trigger input", byCredential, "said by the input of a trigger"},
		{"drop reason", byCredential, "inside the reason for which an event is dropped"},
	}
}

// shortSecret has five bytes, of which four look different in a URL.
const shortSecret = `q"/&%`

// endLength is how much of both ends of a secret is written alike everywhere, and
// occurs nowhere else.
const endLength = 8

// valueOf is the secret of a row: between its ends, characters that are written
// differently in URLs, JSON, HTML and base64. What goes into a header has ASCII
// only.
func valueOf(row int, s source) string {
	if s.name == "short" {
		return shortSecret
	}
	other := "é😀"
	if s.by == byHeader {
		other = "~!"
	}
	return fmt.Sprintf(`K%02dalder"/+&<>`, row) + other + fmt.Sprintf(`\=%%' {y} Q%02dbirch`, row)
}

// vault knows the secrets, and which of them were used.
type vault struct {
	values map[string]string

	mu   sync.Mutex
	used map[string]bool // guarded by mu
}

func newVault() *vault {
	v := &vault{values: map[string]string{}, used: map[string]bool{}}
	for i, s := range sources() {
		v.values[s.name] = valueOf(i, s)
	}
	return v
}

// of returns the secret of a source where the scenario says it.
func (v *vault) of(name string) string {
	value, ok := v.values[name]
	if !ok {
		panic("no source is named " + name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.used[name] = true
	return value
}

// says is a text with the secret of a source in it.
func (v *vault) says(name string) string { return "here it is: " + v.of(name) + " (end)" }

// long is the same, with the secret across the place where texts are cut that
// are quoted in errors.
func (v *vault) long(name string) string { return strings.Repeat("x", 110) + v.of(name) + " (end)" }

// keptBy are the sources that are kept in one place, by name.
func (v *vault) keptBy(by kept) map[string]string {
	all := map[string]string{}
	for _, s := range sources() {
		if s.by == by {
			all[s.name] = v.values[s.name]
		}
	}
	return all
}

// unused are the sources that the scenario did not use.
func (v *vault) unused() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var names []string
	for _, s := range sources() {
		if !v.used[s.name] {
			names = append(names, s.name)
		}
	}
	return names
}
