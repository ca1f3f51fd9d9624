package harness

import (
	"crypto/rand"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// newID makes an id that no one can guess and that sorts in no order.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// maxID bounds ids that callers choose.
const maxID = 256

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
