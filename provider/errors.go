package provider

import (
	"errors"

	"github.com/bridle-dev/bridle/fault"
)

// NotSent marks err as one after which the peer cannot have acted. NotSent(nil)
// is nil.
func NotSent(err error) error { return coded(fault.NotSent, err) }

// Unknown marks err as one after which the peer may have acted. Errors without
// a mark count as this. Unknown(nil) is nil.
func Unknown(err error) error { return coded(fault.OutcomeUnknown, err) }

// Refused is the peer's own answer that an operation failed. peerCode is its
// code, text its message for whoever asked; neither holds credentials.
func Refused(peerCode, text string) error {
	e := fault.New(fault.OpFailed, "%s", text)
	e.PeerCode = peerCode
	return e
}

// UnknownCursor is the peer's answer to [ListenRequest.After] that it cannot go on
// from there, and never will: its log was trimmed beyond the position, or it gave out
// no such cursor. text is its message; it holds no credentials. The error matches
// [fault.OpFailed] and [fault.Gap]. Whatever listens for good begins from now then and
// counts a gap; after every other error it asks again with the same cursor.
func UnknownCursor(text string) error {
	return &fault.Error{Code: fault.OpFailed, PeerCode: "invalid_cursor", Err: &fault.Error{Code: fault.Gap, Err: errors.New(text)}}
}

// Guarded is the peer's answer that target needs an approval first.
func Guarded(target, reason string) error {
	e := fault.New(fault.Guarded, "%s needs an approval: %s", target, reason)
	e.PeerCode = target
	return e
}

func coded(code fault.Code, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Code: code, Err: err}
}
