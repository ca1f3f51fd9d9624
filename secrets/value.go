package secrets

import (
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
)

// marker stands where a value was.
const marker = "<redacted>"

// Limits of a secret, in bytes.
const (
	minSecret = 4         // shorter ones would match ordinary text everywhere
	maxSecret = 64 * 1024 // a secret is searched for in everything, so it is no file
)

// Value is a secret itself. Reveal is the only way out: printing, logging and
// marshalling show "<redacted>", in fields that are not exported too. Values do
// not compare with ==. The zero Value is none.
type Value struct {
	// A function rather than a string, since fmt and the printers of test
	// libraries read fields without asking the type.
	reveal func() string
}

// NewValue wraps a secret. An empty one is the zero Value.
func NewValue(secret string) Value {
	if secret == "" {
		return Value{}
	}
	return Value{reveal: func() string { return secret }}
}

// Reveal returns the secret, "" for the zero Value. Whoever calls it answers for
// where the string goes.
func (v Value) Reveal() string {
	if v.reveal == nil {
		return ""
	}
	return v.reveal()
}

// IsZero reports whether there is no secret.
func (v Value) IsZero() bool { return v.reveal == nil }

// String returns "<redacted>".
func (v Value) String() string { return marker }

// Format prints "<redacted>" for every verb and flag.
func (v Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(marker)) }

// LogValue logs as "<redacted>".
func (v Value) LogValue() slog.Value { return slog.StringValue(marker) }

// MarshalText gives "<redacted>".
func (v Value) MarshalText() ([]byte, error) { return []byte(marker), nil }

// MarshalJSON gives "<redacted>" as a JSON string.
func (v Value) MarshalJSON() ([]byte, error) { return []byte(`"` + marker + `"`), nil }

// GobEncode refuses: gob is for moving values, and this one must not move.
func (v Value) GobEncode() ([]byte, error) {
	return nil, fault.New(fault.SecretUnavailable, "a secret value cannot be encoded")
}

// Check reports whether a value can be kept secret: fault.SecretUnavailable if
// it is under 4 bytes, over 64 KiB, not UTF-8, or part of "<redacted>" or of a
// JSON word such as null, which could not be told from text without it. Every
// value is checked before it is used, whatever resolver it is from.
func Check(v Value) error {
	secret := v.Reveal()
	switch {
	case len(secret) < minSecret:
		return unusable("it is under %d bytes", minSecret)
	case len(secret) > maxSecret:
		return unusable("it is over %d bytes", maxSecret)
	case !utf8.ValidString(secret):
		return unusable("it is not UTF-8")
	case strings.Contains(marker+" true false null", secret):
		return unusable("it is part of %s or of a JSON word", marker)
	}
	return nil
}

func unusable(why string, args ...any) error {
	return fault.New(fault.SecretUnavailable, "the secret cannot be used: "+why, args...).
		WithHint("Choose another value for the secret: one that is long and random can be recognised in any text.")
}
