package triggers_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// FuzzMessageID checks that any two ids of events make two ids of messages that a
// store takes and a terminal survives, and that plain ones stay as they are.
func FuzzMessageID(f *testing.F) {
	for _, seed := range [][2]string{{"e1", "e2"}, {"", "\x00"}, {"a:b", "a_b"}, {strings.Repeat("x", 600), strings.Repeat("x", 601)},
		{"\xff", "\xfe"}, {"é\n", "é\r"}, {"cursor:1", "1"}} {
		f.Add(seed[0], seed[1])
	}
	one := trigger("t")
	f.Fuzz(func(t *testing.T, a, b string) {
		id, other := triggers.MessageIDOf(&one, a), triggers.MessageIDOf(&one, b)
		if (id == other) != (a == b) {
			t.Errorf("%q and %q are %q and %q", a, b, id, other)
		}
		if len(id) > kv.MaxKey || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) || !strings.HasPrefix(id, "peer:t:") {
			t.Errorf("%q is %q", a, id)
		}
		plain := utf8.ValidString(a) && !strings.ContainsFunc(a, unicode.IsControl) && len(a) < 400
		if plain && id != "peer:t:"+a {
			t.Errorf("%q is %q", a, id)
		}
	})
}

// FuzzInboxRecords checks that no bytes make reading panic, and that what can be
// read is what was written.
func FuzzInboxRecords(f *testing.F) {
	f.Add([]byte("000000000000002a abc -"))
	f.Add([]byte("{\"id\":\"a\",\"event\":{\"kind\":\"event\"}}\n{\"a\":1}"))
	f.Add([]byte("\n\n"))
	f.Add([]byte("  "))
	f.Fuzz(func(t *testing.T, raw []byte) {
		line, payload := triggers.ReadRecords(raw)
		if line != nil && !bytes.Equal(line, raw) {
			t.Errorf("read %q and wrote %q", raw, line)
		}
		if !bytes.HasSuffix(raw, payload) {
			t.Errorf("payload %q of %q", payload, raw)
		}
	})
}
