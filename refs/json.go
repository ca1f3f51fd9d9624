package refs

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
)

// MaxSize is how many bytes the fields of one ref may have together. Their JSON
// is longer by the names, and by what is escaped.
const MaxSize = 4096

const (
	// member is the only name in a ref's object.
	member = "$ref"
	// maxJSON is the most that MaxSize bytes can become: six for each byte that
	// is escaped, and the names.
	maxJSON = 6*MaxSize + 512
	// refDepth is how deep a ref's objects are nested.
	refDepth = 2
)

// MarshalJSON writes the ref in its one canonical form, RFC 8785; the zero Ref
// as null. It fails only for text that is not valid UTF-8.
func (r Ref) MarshalJSON() ([]byte, error) {
	if r.IsZero() {
		return []byte("null"), nil
	}
	w := objectWriter{out: append(make([]byte, 0, 512), `{"$ref":{`...)}
	w.text("connection", r.connection)
	w.text("id", r.id)
	w.text("instance", r.instance)
	w.text("key", r.key)
	w.text("kind", r.kind)
	w.text("lease", r.lease)
	if r.sensitive {
		w.raw("sensitive", "true")
	}
	if r.Sealed() {
		w.text("sig", encodeTag(r.tag))
	}
	if r.size != 0 {
		w.raw("size", strconv.FormatInt(r.size, 10))
	}
	w.text("thread", r.thread)
	w.text("type", r.mimeType)
	if w.err != nil {
		return nil, fault.New(fault.RefInvalid, "encode %s: %w", r, w.err)
	}
	return append(w.out, "}}"...), nil
}

// objectWriter writes members, leaving out those that are empty.
type objectWriter struct {
	out  []byte
	some bool // a member has been written
	err  error
}

func (w *objectWriter) raw(name, value string) {
	if w.some {
		w.out = append(w.out, ',')
	}
	w.some = true
	w.out = append(append(append(w.out, '"'), name...), `":`...)
	w.out = append(w.out, value...)
}

func (w *objectWriter) text(name, value string) {
	if value == "" {
		return
	}
	w.raw(name, "")
	out, err := jsontext.AppendQuote(w.out, value)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.out = out
}

// UnmarshalJSON reads what MarshalJSON wrote, sealed or not, and null as the
// zero Ref. White space, the order of members and the spelling of strings are
// free, as in any JSON. Everything else is ref_invalid and ref_forged: unknown,
// repeated, empty or missing members, wrong types, a tag that is not spelled as
// MarshalJSON does, and more than [MaxSize] bytes. An error leaves r as it was.
func (r *Ref) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*r = Ref{}
		return nil
	}
	if len(data) > maxJSON {
		return malformed("has %d bytes, more than %d", len(data), maxJSON)
	}
	_, tree, issue := schema.Canonical(data, refDepth)
	if issue != nil {
		return malformed("%s %s", fault.Quote(issue.Path), issue.Message)
	}
	read, err := fromTree(tree)
	if err != nil {
		return err
	}
	*r = read
	return nil
}

// refusedRef is what every refusal of a ref looks like: its own code around the
// reason.
func refusedRef(reason fault.Code, format string, args ...any) *fault.Error {
	return fault.New(fault.RefInvalid, format+": %w", append(args, reason)...)
}

func malformed(format string, args ...any) *fault.Error {
	return refusedRef(fault.RefForged, "not a ref: "+format, args...).
		WithHint("Pass a ref exactly as it was returned, or its alias.")
}

// fromTree reads a ref that is part of a larger value.
func fromTree(tree any) (Ref, error) {
	members, ok := refMembers(tree)
	if !ok {
		return Ref{}, malformed("it is no object with the one member %s", member)
	}
	f := fields{members: members, left: MaxSize}
	r := Ref{
		id: f.text("id"), kind: f.text("kind"), connection: f.text("connection"), thread: f.text("thread"),
		lease: f.text("lease"), instance: f.text("instance"), mimeType: f.text("type"),
		size: f.size("size"), sensitive: f.yes("sensitive"), key: f.text("key"), tag: f.tag("sig"),
	}
	if f.problem == "" {
		f.problem = r.incomplete(f.has("sig"))
	}
	switch {
	case f.problem != "":
		return Ref{}, malformed("%s", f.problem)
	case f.read != len(members):
		return Ref{}, malformed("it has members that no ref has")
	}
	return r, nil
}

// refMembers returns what is inside an object that has the form of a ref.
func refMembers(tree any) (map[string]any, bool) {
	outer, ok := tree.(map[string]any)
	if !ok || len(outer) != 1 {
		return nil, false
	}
	members, ok := outer[member].(map[string]any)
	return members, ok
}

// hasSeal tells refs from data.
func hasSeal(members map[string]any) bool {
	_, ok := members["sig"]
	return ok
}

// incomplete says which fields are missing that go with others.
func (r Ref) incomplete(sig bool) string {
	switch {
	case r.id == "" || r.kind == "":
		return "id or kind is missing"
	case r.kind != BlobKind && (r.mimeType != "" || r.size != 0 || r.sensitive):
		return "only a blob has a type, a size, or is sensitive"
	case !sig && r.connection+r.thread+r.lease+r.instance+r.key != "":
		return "its seal is missing"
	case sig && (r.connection == "" || r.thread == "" || r.key == ""):
		return "its seal has no connection, thread or key"
	}
	return ""
}

// fields reads the members of a ref. The first problem stays.
type fields struct {
	members map[string]any
	read    int // how many of the members were asked for
	left    int // how many bytes the others may have
	problem string
}

func (f *fields) has(name string) bool {
	_, ok := f.members[name]
	return ok
}

// take returns a member that is there.
func (f *fields) take(name string) (any, bool) {
	value, ok := f.members[name]
	if ok {
		f.read++
	}
	return value, ok
}

func (f *fields) fail(name, message string) {
	if f.problem == "" {
		f.problem = name + " " + message
	}
}

func (f *fields) text(name string) string {
	value, ok := f.take(name)
	if !ok {
		return ""
	}
	text, ok := value.(string)
	f.left -= len(text)
	switch {
	case !ok:
		f.fail(name, "is no string")
	case text == "":
		f.fail(name, "is empty")
	case f.left < 0:
		f.fail(name, "makes it too long")
	}
	return text
}

func (f *fields) size(name string) int64 {
	value, ok := f.take(name)
	if !ok {
		return 0
	}
	digits, _ := value.(json.Number)
	size, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || size <= 0 {
		f.fail(name, "is no number of bytes")
	}
	return size
}

// yes reads a member that is there only if it is true.
func (f *fields) yes(name string) bool {
	value, ok := f.take(name)
	if ok && value != true {
		f.fail(name, "is given without being true")
	}
	return ok
}

func (f *fields) tag(name string) tag {
	text := f.text(name)
	if text == "" {
		return tag{}
	}
	t, ok := decodeTag(text)
	if !ok {
		f.fail(name, "is no tag")
	}
	return t
}

// tagText is the one spelling of a tag: base64url without padding, and with
// nothing in the bits that the last character has to spare.
func tagText() *base64.Encoding { return base64.RawURLEncoding.Strict() }

func encodeTag(t tag) string { return tagText().EncodeToString(t[:]) }

func decodeTag(text string) (t tag, ok bool) {
	decoded, err := tagText().DecodeString(text)
	if err != nil || len(decoded) != len(t) || len(text) != tagText().EncodedLen(len(t)) {
		return tag{}, false
	}
	return tag(decoded), true
}
