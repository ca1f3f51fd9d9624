package refs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/refs"
)

// mutants is how many refs are tried that nobody sealed.
func mutants() int64 {
	switch {
	case os.Getenv("BRIDLE_LONG") != "":
		return 1_000_000
	case testing.Short():
		return 2_000
	}
	return 20_000
}

// genuine are refs sealed in this run, in many kinds and scopes and under two
// keys of one store, from which mutants are made.
type genuine struct {
	keys  *refs.Keys
	refs  []original
	texts map[string]bool // of the originals, as encoding/json writes them again
}

// original is a genuine ref as JSON, taken apart.
type original struct {
	scope  refs.Scope
	fields map[string]any
}

func newGenuine(t *testing.T) *genuine {
	g := &genuine{keys: newKeys(t), texts: map[string]bool{}}
	targets := []refs.Ref{
		refs.New("element", "e12"), refs.New("element", "e1"), refs.New("window", "e12"),
		refs.New("chat.thread", "caf\u00e9 \u212b \u212a \ufb01 stra\u00dfe"), refs.New("e1", "element"),
		refs.BlobInfo{ID: "b1", MIMEType: "image/png", Size: 8}.Ref(),
		refs.BlobInfo{ID: "b1", MIMEType: "image/png", Size: 8, Sensitive: true}.Ref(),
	}
	scopes := []refs.Scope{
		home(), {Connection: "app", Thread: "t2", Instance: "page-7"}, {Connection: "a", Thread: "ppt1", Instance: "page-8"},
		{Connection: "pool", Thread: "t1", Lease: "l1", Instance: "i1"}, {Connection: "pool", Thread: "t1", Lease: "l2", Instance: "i1"},
	}
	for range 2 {
		for i, scope := range scopes {
			for j, target := range targets {
				g.add(t, target, scope, (i+j)%2 == 0)
			}
		}
		if err := g.keys.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *genuine) add(t *testing.T, target refs.Ref, scope refs.Scope, volatile bool) {
	text := encoded(t, seal(t, g.keys, target, scope, volatile))
	var outer map[string]map[string]any
	if err := json.Unmarshal([]byte(text), &outer); err != nil {
		t.Fatal(err)
	}
	made := original{scope, outer["$ref"]}
	if _, accepted := g.accepted(text, made); !accepted {
		t.Fatalf("the original %s is not accepted", text)
	}
	g.refs = append(g.refs, made)
	again, _ := reencoded(text)
	g.texts[again] = true
}

// reencoded is JSON as encoding/json understands it, which shares no code with
// the reader under test.
func reencoded(text string) (string, bool) {
	var tree any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		return "", false
	}
	out, err := json.Marshal(tree)
	return string(out), err == nil
}

// accepted tries a text in the scope of its original and in the one that it
// claims for itself, read alone and as part of arguments.
func (g *genuine) accepted(text string, of original) (opened, accepted bool) {
	var r refs.Ref
	if json.Unmarshal([]byte(text), &r) == nil {
		opened = true
		accepted = g.opens(r, text, of)
	}
	_, tree, issue := schema.Canonical([]byte(`{"target":[`+text+`]}`), 64)
	if issue != nil {
		return opened, accepted
	}
	_, _, _ = refs.Find(tree, func(path string, r refs.Ref, malformed error) (any, error) {
		// A genuine ref inside of what was put around it is a genuine ref.
		if malformed == nil && path == "/target/0" {
			accepted = accepted || g.opens(r, text, of)
		}
		return nil, malformed
	})
	return opened, accepted
}

func (g *genuine) opens(r refs.Ref, text string, of original) bool {
	var outer map[string]map[string]any
	_ = json.Unmarshal([]byte(text), &outer)
	claim := func(name string) string { s, _ := outer["$ref"][name].(string); return s }
	claimed := refs.Scope{Connection: claim("connection"), Thread: claim("thread"), Lease: claim("lease"), Instance: claim("instance")}
	return r.Sealed() && (g.keys.Open(r, of.scope) == nil || g.keys.Open(r, claimed) == nil)
}

func TestNoMutatedRefIsAccepted(t *testing.T) {
	g := newGenuine(t)
	var next, opened atomic.Int64
	made := make([]atomic.Int64, len(mutators()))
	var work sync.WaitGroup
	for worker := range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 4))
			for next.Load() < mutants() {
				which := random.IntN(len(made))
				from := g.refs[random.IntN(len(g.refs))]
				m := mutant{Rand: random, original: from, other: g.refs[random.IntN(len(g.refs))]}
				text, twice := mutators()[which].mutate(m)
				if same, ok := reencoded(text); ok && g.texts[same] && !twice {
					continue // says what an original says
				}
				next.Add(1)
				made[which].Add(1)
				tried, accepted := g.accepted(text, from)
				if accepted {
					t.Errorf("%s: accepted %s", mutators()[which].name, text)
				}
				if tried {
					opened.Add(1)
				}
			}
		})
	}
	work.Wait()
	for i, m := range mutators() {
		if made[i].Load() < mutants()/int64(len(made))/20 {
			t.Errorf("%s: only %d mutants", m.name, made[i].Load())
		}
	}
	if opened.Load() < mutants()/4 {
		t.Errorf("only %d of %d mutants were refused by their seal", opened.Load(), next.Load())
	}
	t.Logf("%d mutants, %d of them read and refused by their seal", next.Load(), opened.Load())
}

// mutant is what a mutator works with.
type mutant struct {
	*rand.Rand
	original
	other original
}

// mutator returns text of a ref that was not sealed, and whether the text is
// wrong even if it says what an original says.
type mutator struct {
	name   string
	mutate func(m mutant) (text string, wrong bool)
}

func mutators() []mutator {
	return []mutator{
		{"fields of another ref", func(m mutant) (string, bool) { return m.with(m.swapped(1 + m.IntN(3))), false }},
		{"tag of another ref", func(m mutant) (string, bool) {
			return m.with(map[string]any{"sig": m.other.fields["sig"], "key": m.other.fields["key"]}), false
		}},
		{"fields exchanged", func(m mutant) (string, bool) {
			a, b := m.name(), m.name()
			return m.with(map[string]any{a: m.fields[b], b: m.fields[a]}), false
		}},
		{"bytes moved to the next field", func(m mutant) (string, bool) { return m.with(m.moved()), false }},
		{"repeated name", repeatedName},
		{"other code points", func(m mutant) (string, bool) { return m.edit(otherForm), false }},
		{"other case", func(m mutant) (string, bool) { return m.edit(otherCase), false }},
		{"other case of a name", func(m mutant) (string, bool) {
			name := m.name()
			return strings.Replace(m.with(nil), `"`+name+`"`, `"`+otherCase(m, name)+`"`, 1), false
		}},
		{"changed text", func(m mutant) (string, bool) { return m.edit(flipped), false }},
		{"tag", func(m mutant) (string, bool) { return m.with(map[string]any{"sig": otherTag(m)}), false }},
		{"key id", func(m mutant) (string, bool) { return m.with(map[string]any{"key": otherKey(m)}), false }},
		{"other type", func(m mutant) (string, bool) { return m.with(otherType(m)), false }},
		{"field gone", func(m mutant) (string, bool) { return m.with(map[string]any{m.name(): nil}), false }},
		{"field added", func(m mutant) (string, bool) { return m.with(added(m)), false }},
		{"blob facts", func(m mutant) (string, bool) { return m.with(otherFacts(m)), false }},
		{"something around it", func(m mutant) (string, bool) { return around(m), false }},
		{"cut", func(m mutant) (string, bool) { text := m.with(nil); return text[:m.IntN(len(text))], false }},
		{"bit", func(m mutant) (string, bool) {
			text := []byte(m.with(nil))
			text[m.IntN(len(text))] ^= 1 << m.IntN(8)
			return string(text), false
		}},
	}
}

// with returns the ref after setting fields; nil removes one.
func (m mutant) with(changes map[string]any) string {
	fields := maps.Clone(m.fields)
	maps.Copy(fields, changes)
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil })
	text, _ := json.Marshal(map[string]any{"$ref": fields})
	return string(text)
}

// name returns the name of a field that the ref has.
func (m mutant) name() string {
	names := slices.Sorted(maps.Keys(m.fields))
	return names[m.IntN(len(names))]
}

// edit changes the text of one field.
func (m mutant) edit(f func(mutant, string) string) string {
	name := m.name()
	if text, ok := m.fields[name].(string); ok {
		return m.with(map[string]any{name: f(m, text)})
	}
	return m.with(nil)
}

func (m mutant) swapped(n int) map[string]any {
	changes := map[string]any{}
	for range n {
		name := m.name()
		changes[name] = m.other.fields[name]
	}
	return changes
}

func (m mutant) moved() map[string]any {
	order := []string{"key", "kind", "id", "connection", "thread", "lease", "instance", "type"}
	i := m.IntN(len(order) - 1)
	from, _ := m.fields[order[i]].(string)
	to, _ := m.fields[order[i+1]].(string)
	both := []rune(from + to)
	if len(both) == 0 {
		return nil
	}
	cut := m.IntN(len(both) + 1)
	return map[string]any{order[i]: string(both[:cut]), order[i+1]: string(both[cut:])}
}

func repeatedName(m mutant) (string, bool) {
	name := m.name()
	value, _ := json.Marshal(m.other.fields[name])
	if m.IntN(2) == 0 {
		value, _ = json.Marshal(m.fields[name])
	}
	again := fmt.Sprintf(`"%s":%s`, name, value)
	if m.IntN(4) == 0 {
		again = fmt.Sprintf(`"\u%04x%s":%s`, name[0], name[1:], value)
	}
	text := m.with(nil)
	if m.IntN(2) == 0 {
		return strings.Replace(text, `{"$ref":{`, `{"$ref":{`+again+`,`, 1), true
	}
	return strings.TrimSuffix(text, "}}") + "," + again + "}}", true
}

// otherForm replaces text by what looks the same or is equivalent to it.
func otherForm(m mutant, text string) string {
	forms := []string{
		"\u00e9", "e\u0301", "\u212b", "\u00c5", "\u212b", "A\u030a", "\u212a", "K", "\ufb01", "fi", "\u00df", "ss",
		"a", "\u0430", "e", "\u0435", "p", "\u0440", "1", "\uff11", "-", "\u2010", "i", "\u0456", "t", "\uff54", "/", "\u2215",
	}
	at := m.IntN(len(forms)/2) * 2
	if m.IntN(4) == 0 {
		runes := []rune(text)
		i := m.IntN(len(runes) + 1)
		invisible := []rune{0, 0x200b, 0x200d, 0x2060, 0xfeff, 0xfe0f, 0x00ad, 0x0301, 0xfffd, ' '}
		return string(runes[:i]) + string(invisible[m.IntN(len(invisible))]) + string(runes[i:])
	}
	return strings.Replace(text, forms[at], forms[at+1], 1+m.IntN(2))
}

func otherCase(m mutant, text string) string {
	switch m.IntN(3) {
	case 0:
		return strings.ToUpper(text)
	case 1:
		return strings.ToUpper(text[:1]) + text[1:]
	}
	b := []byte(text)
	i := m.IntN(len(b))
	if c := b[i] | 0x20; c >= 'a' && c <= 'z' {
		b[i] ^= 0x20
	}
	return string(b)
}

// flipped changes, adds, removes or exchanges one character.
func flipped(m mutant, text string) string {
	runes := []rune(text)
	i := m.IntN(len(runes))
	switch m.IntN(4) {
	case 0:
		return string(slices.Delete(runes, i, i+1))
	case 1:
		return string(slices.Insert(runes, i, rune(' '+m.IntN(95))))
	case 2:
		j := m.IntN(len(runes))
		runes[i], runes[j] = runes[j], runes[i]
		return string(runes)
	}
	runes[i] = rune(' ' + m.IntN(95))
	return string(runes)
}

func otherTag(m mutant) string {
	tag := m.fields["sig"].(string)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	switch m.IntN(8) {
	case 0:
		return tag[:m.IntN(len(tag))]
	case 1:
		return tag + string(alphabet[m.IntN(64)])
	case 2:
		return tag + []string{"=", "==", "\n", " ", "\r\n", "\x00"}[m.IntN(6)]
	case 3:
		return spellings(tag)[m.IntN(3)]
	case 4:
		return strings.NewReplacer("-", "+", "_", "/").Replace(tag) + "="
	case 5:
		i := m.IntN(len(tag))
		return tag[:i] + "\n" + tag[i:]
	case 6:
		return strings.Repeat(string(alphabet[m.IntN(64)]), 42) + "A"
	}
	b := []byte(tag)
	b[m.IntN(len(b)-1)] = alphabet[m.IntN(64)]
	return string(b)
}

func otherKey(m mutant) string {
	key := m.fields["key"].(string)
	switch m.IntN(5) {
	case 0:
		return fmt.Sprintf("%016x", m.Uint64())
	case 1:
		return m.other.fields["key"].(string)
	case 2:
		return strings.ToUpper(key)
	case 3:
		return key[:m.IntN(len(key))]
	}
	return key + "0"
}

func otherType(m mutant) map[string]any {
	name := m.name()
	values := []any{1, 0, true, false, []any{m.fields[name]}, map[string]any{name: m.fields[name]}, json.RawMessage("null"), ""}
	if size, ok := m.fields[name].(float64); ok {
		values = append(values, fmt.Sprint(size), -size)
	}
	return map[string]any{name: values[m.IntN(len(values))]}
}

func added(m mutant) map[string]any {
	names := []string{"lease", "instance", "type", "size", "sensitive", "epoch", "Sig", "alg", "$ref", ""}
	values := []any{"", "l1", "i1", "page-7", "none", true, false, 1, 0}
	name := names[m.IntN(len(names))]
	return map[string]any{name: values[m.IntN(len(values))]}
}

func otherFacts(m mutant) map[string]any {
	switch m.IntN(4) {
	case 0:
		return map[string]any{"size": 1 + m.IntN(100)}
	case 1:
		return map[string]any{"type": []string{"image/jpeg", "IMAGE/PNG", "text/plain"}[m.IntN(3)]}
	case 2:
		if _, ok := m.fields["sensitive"]; ok {
			return map[string]any{"sensitive": nil}
		}
		return map[string]any{"sensitive": true}
	}
	return map[string]any{"kind": []string{"blob", "element", "Blob"}[m.IntN(3)]}
}

// around puts something before, after or around a ref that alone is genuine.
func around(m mutant) string {
	text := m.with(nil)
	switch m.IntN(6) {
	case 0:
		return text + []string{"x", "1", "}", "\x00", text, "null", "//"}[m.IntN(7)]
	case 1:
		return []string{"\ufeff", "x", ",", "\x00"}[m.IntN(4)] + text
	case 2:
		return `{"$ref":` + text + `}`
	case 3:
		quoted, _ := json.Marshal(text)
		return string(quoted)
	case 4:
		return strings.TrimSuffix(text, "}") + fmt.Sprintf(`,"%s":1}`, []string{"x", "$ref ", "id"}[m.IntN(3)])
	}
	return fmt.Sprintf(`{"%s":%s`, []string{"$REF", "ref", "$ref ", "$\u200bref"}[m.IntN(4)], strings.TrimPrefix(text, `{"$ref":`))
}
