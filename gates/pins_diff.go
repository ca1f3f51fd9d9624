package gates

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxDifferences = 50       // more than anybody reads
	maxKeptPart    = 32 << 10 // bytes of a text or a schema that are kept to show them
	maxShown       = 160      // bytes of a value that are shown
	shownBefore    = 24       // bytes before the first difference of two texts
	maxPointer     = 160      // bytes of where it is
)

// Difference is one place where two definitions differ. Its texts come from the
// peer: nothing is in them that a terminal obeys, and they are cut.
type Difference struct {
	// Path is a JSON Pointer into the definition, as in
	// "/args/properties/text/maxLength".
	Path string `json:"path"`
	// Was and Now show the values; "" is none, so that something without Was was
	// added and something without Now was removed.
	Was string `json:"was,omitempty"`
	Now string `json:"now,omitempty"`
}

// String is the difference in one line.
func (d Difference) String() string {
	switch {
	case d.Was == "":
		return d.Path + ": added " + d.Now
	case d.Now == "":
		return d.Path + ": removed " + d.Was
	}
	return d.Path + ": " + d.Was + " is now " + d.Now
}

// word says what happened without showing what the peer wrote.
func (d Difference) word() string {
	switch {
	case d.Was == "":
		return "was added"
	case d.Now == "":
		return "was removed"
	}
	return "was changed"
}

// keptDefinition is what is kept of a definition to show later how another one
// differs. Of parts that are too long only their digests are kept.
type keptDefinition struct {
	Name        string            `json:"name"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Args        json.RawMessage   `json:"args,omitempty"`
	Result      json.RawMessage   `json:"result,omitempty"`
	Hints       map[string]string `json:"hints,omitempty"`
	Facts       map[string]string `json:"facts,omitempty"`
}

func keepDefinition(op *provider.Operation) keptDefinition {
	k := keptDefinition{
		Name: keepText(op.Name), Title: keepText(op.Title), Description: keepText(op.Description),
		Args: keepSchema(op.Args), Result: keepSchema(op.Result), Hints: map[string]string{}, Facts: map[string]string{},
	}
	for _, h := range hintsOf(op.Hints) {
		k.Hints[h.name] = h.value
	}
	for _, f := range factsOf(op.Facts) {
		k.Facts[f.name] = keepText(f.value)
	}
	return k
}

// keepText keeps what cannot be shown as its digest.
func keepText(text string) string {
	if len(text) <= maxKeptPart && utf8.ValidString(text) {
		return text
	}
	return summary([]byte(text))
}

// keepSchema keeps canonical JSON. A schema that is a string stands for one that
// cannot be shown; a string is no schema itself.
func keepSchema(text json.RawMessage) json.RawMessage {
	form, canonical := schemaForm(text)
	if form == formNone || form == formJSON && len(canonical) <= maxKeptPart {
		return canonical
	}
	return json.RawMessage(strconv.Quote(summary(canonical)))
}

func summary(data []byte) string {
	return fmt.Sprintf("%d bytes with %s", len(data), digestOf(data))
}

// differences compares two definitions, in the order of a definition's parts.
func (k *keptDefinition) differences(now *keptDefinition) []Difference {
	var d differ
	d.texts("/name", k.Name, now.Name)
	d.texts("/title", k.Title, now.Title)
	d.texts("/description", k.Description, now.Description)
	d.schemas("/args", k.Args, now.Args)
	d.schemas("/result", k.Result, now.Result)
	d.traits("/hints/", k.Hints, now.Hints)
	d.traits("/facts/", k.Facts, now.Facts)
	return d.found
}

// differ collects differences, the first ones of many.
type differ struct {
	found []Difference
}

func (d *differ) add(path, was, now string) {
	if len(d.found) < maxDifferences {
		d.found = append(d.found, Difference{shownText(path, maxPointer), was, now})
	}
}

func (d *differ) texts(path, was, now string) {
	if was == now {
		return
	}
	from := commonPrefix(was, now)
	d.add(path, shownFrom(was, from), shownFrom(now, from))
}

func (d *differ) traits(path string, was, now map[string]string) {
	for _, name := range sortedNames(was, now) {
		if was[name] != now[name] {
			d.add(path+name, shownText(was[name], maxShown), shownText(now[name], maxShown))
		}
	}
}

// schemas compares canonical JSON. That of an earlier version of this package is
// read as leniently as a peer's.
func (d *differ) schemas(path string, was, now json.RawMessage) {
	if string(was) == string(now) {
		return
	}
	d.values(path, parsedSchema(was), parsedSchema(now))
}

// absent is a member that one side does not have.
type absent struct{}

func parsedSchema(text json.RawMessage) any {
	if len(text) == 0 {
		return absent{}
	}
	tree, issue := schema.Parse(text, maxResultDepth)
	if issue != nil {
		return string(text)
	}
	return tree
}

// values descends where both sides are of one kind. It recurses as deep as a
// schema is nested, which is bounded.
func (d *differ) values(path string, was, now any) {
	if len(d.found) >= maxDifferences {
		return
	}
	switch was := was.(type) {
	case map[string]any:
		if now, ok := now.(map[string]any); ok {
			d.objects(path, was, now)
			return
		}
	case []any:
		if now, ok := now.([]any); ok {
			d.arrays(path, was, now)
			return
		}
	case string:
		if now, ok := now.(string); ok {
			d.texts(path, was, now)
			return
		}
	default:
		if was == now {
			return
		}
	}
	d.add(path, shownValue(was), shownValue(now))
}

func (d *differ) objects(path string, was, now map[string]any) {
	for _, name := range sortedNames(was, now) {
		d.values(string(jsontext.Pointer(path).AppendToken(name)), member(was, name), member(now, name))
	}
}

func (d *differ) arrays(path string, was, now []any) {
	for i := range max(len(was), len(now)) {
		d.values(path+"/"+strconv.Itoa(i), item(was, i), item(now, i))
	}
}

func member(object map[string]any, name string) any {
	if value, ok := object[name]; ok {
		return value
	}
	return absent{}
}

func item(array []any, i int) any {
	if i < len(array) {
		return array[i]
	}
	return absent{}
}

func sortedNames[V any](a, b map[string]V) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}

// commonPrefix is how many bytes of whole characters both texts begin with.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return boundary(a, n)
}

// boundary is the beginning of the character that is at n.
func boundary(text string, n int) int {
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// shownFrom quotes a text from a little before the given place, "" for none.
func shownFrom(text string, from int) string {
	if text == "" {
		return ""
	}
	start := boundary(text, max(0, min(from, len(text))-shownBefore))
	mark := ""
	if start > 0 {
		mark = "…"
	}
	return strconv.QuoteToGraphic(mark + clip(text[start:], maxShown))
}

// shownText is a text with all that is not graphic escaped, "" for none.
func shownText(text string, limit int) string {
	var out strings.Builder
	for _, r := range clip(text, limit) {
		if unicode.IsGraphic(r) {
			out.WriteRune(r)
			continue
		}
		escaped := strconv.QuoteRuneToASCII(r)
		out.WriteString(escaped[1 : len(escaped)-1])
	}
	return out.String()
}

// shownValue is the beginning of a value's JSON, "" for none.
func shownValue(value any) string {
	if _, none := value.(absent); none {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "a value"
	}
	return shownText(string(text), maxShown)
}
