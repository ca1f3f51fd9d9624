package triggers

import (
	"strconv"
	"time"
)

// tolerance is how far a signed time may be from now, in whole seconds and both
// ways (Standard Webhooks leaves it to the receiver; its libraries, Slack and
// Stripe use five minutes).
const tolerance = 300

// maxTimeDigits keeps instants within what time.Time can hold and subtract.
const maxTimeDigits = 12

// unixTime reads seconds since 1970 in the one spelling that signers use: plain
// digits without a sign or a leading zero.
func unixTime(text string) (time.Time, bool) {
	if text == "" || len(text) > maxTimeDigits || text[0] == '0' && text != "0" {
		return time.Time{}, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return time.Time{}, false
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(n, 0), err == nil
}

// fresh reports whether a signed time is close enough to now.
func fresh(at, now time.Time) bool {
	apart := now.Unix() - at.Unix()
	return -tolerance <= apart && apart <= tolerance
}
