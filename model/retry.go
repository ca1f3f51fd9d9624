package model

import (
	"fmt"
	"time"
)

// RetryAfter is found underneath an error whose service said when to ask again:
//
//	if r, ok := errors.AsType[model.RetryAfter](err); ok {
//		wait = r.After
//	}
//
// After is as the service said it, counted from the answer's arrival, and never
// negative; whoever waits decides how long is too long. It does not survive
// JSON, as a recorded delay has passed.
type RetryAfter struct{ After time.Duration }

// Error says how long.
func (r RetryAfter) Error() string { return fmt.Sprintf("asks to wait %s", r.After) }
