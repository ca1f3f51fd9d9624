package harness

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// newID makes an id that no one can guess and that sorts in no order.
func newID(prefix string) string {
	id := append([]byte(prefix), rand.Text()...)
	for i := len(prefix); i < len(id); i++ {
		id[i] |= 0x20 // small letters; digits have the bit already
	}
	return string(id)
}

// itemID makes an id for an item of this execution: one that no one can guess,
// for the first of them, and a number, since asking the system for randomness
// each time costs more than a gate.
func (x *execution) itemID() string {
	x.itemsOnce.Do(func() { x.itemsFrom = newID("itm-") })
	return x.itemsFrom + "-" + strconv.FormatInt(x.itemsMade.Add(1), 10)
}

// maxID bounds ids that callers choose.
const maxID = 256

// plainID reports whether a model's call id can stand in keys and paths as it
// is: not empty, of bounded length, without characters that mean something there.
func plainID(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, func(r rune) bool {
		return r <= 0x20 || r == 0x7f || r == utf8.RuneError || strings.ContainsRune(":/#[]", r)
	})
}

// checkID refuses ids that would be ambiguous in keys or flood a log.
func checkID(what, id string) error {
	if len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r == ':' || r < 0x20 || r == 0x7f }) {
		return fault.New(fault.HarnessInvalid, "%s %s is malformed", what, fault.Quote(id)).
			WithHint("Use at most %d bytes without colons and control characters.", maxID)
	}
	return nil
}

func stepKey(x provider.ExecutionID, path string) provider.Key {
	return provider.Key(string(x) + ":step:" + path)
}

func toolKey(x provider.ExecutionID, callID string) provider.Key {
	return provider.Key(string(x) + ":tool:" + callID)
}

// rerunKey is the key of a call that was made a new one n times.
func rerunKey(first provider.Key, n int) provider.Key {
	if n == 0 {
		return first
	}
	return provider.Key(fmt.Sprintf("%s:r%d", first, n))
}

// firstKey is the key of a call before it was made a new one. Neither ids nor
// paths have colons.
func firstKey(k provider.Key) provider.Key {
	parts := strings.SplitN(string(k), ":", 4)
	return provider.Key(strings.Join(parts[:min(3, len(parts))], ":"))
}
