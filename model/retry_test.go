package model_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

func ExampleRetryAfter() {
	var err error = fault.New(fault.ModelRateLimit, "the service answers 429: %w", model.RetryAfter{After: 7 * time.Second})
	if r, ok := errors.AsType[model.RetryAfter](err); ok {
		fmt.Println(r.After)
	}
	// Output: 7s
}
