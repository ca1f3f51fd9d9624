// Package secrets keeps credentials out of everything that is logged, stored,
// shown or told to a model. This version holds the [Scrubber] only: it knows
// the values that providers registered and replaces them wherever they show up.
//
//	s := secrets.NewScrubber()
//	s.Add("tok-4711-abcdef")
//	s.String("the server said: bad token tok-4711-abcdef")
//	// the server said: bad token <redacted>
//
// # What is found
//
// Registered values, and nothing that only looks like a secret: a credential
// that a tool found for its user is a result. A value is found in plain form,
// JSON-escaped, URL-encoded, in hexadecimal, and in base64 of either alphabet
// at any alignment, also within longer text.
//
// # What is not found
//
// Values shorter than eight bytes, which would match ordinary text; values that
// are split over two texts, compressed, encrypted, or encoded twice; values
// that something cut before they got here. Each text is looked at as a whole:
// there is no scrubber for streams yet, and no resolver of secret references.
package secrets
