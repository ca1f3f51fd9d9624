package harness

import (
	"math/rand/v2"
	"time"
)

// Pauses between attempts to connect.
const (
	// firstPause lets a server that was just killed come back without a stampede.
	firstPause = 100 * time.Millisecond
	// longestPause keeps a server that is down for hours within half a minute
	// of being noticed when it is back.
	longestPause = 30 * time.Second
	// stableAfter is how long a connection must last before its next loss
	// counts as a first one.
	stableAfter = 10 * time.Second
)

// pause is how long to wait after the nth failed attempt in a row, n from 1: it
// doubles up to longestPause, and is spread by half so that clients of one
// server do not come back together.
func pause(n int, spread func() float64) time.Duration {
	d := longestPause
	if shift := n - 1; shift < 16 {
		d = min(longestPause, firstPause<<shift)
	}
	return d/2 + time.Duration(float64(d)*spread()/2)
}

func spread() float64 { return rand.Float64() }
