package fault_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bridle-dev/bridle/fault"
)

// A code is what errors.Is takes; the value has the details. Both survive JSON.
func ExampleError() {
	refused := fault.New(fault.OpFailed, "no such order").At("shop", "refund").WithHint("List the orders first.")
	err := fault.New(fault.StepFailed, "gave up: %w", refused)

	record, _ := json.Marshal(err)
	var back fault.Error
	if err := json.Unmarshal(record, &back); err != nil {
		fmt.Println(err)
	}
	fmt.Println(errors.Is(&back, fault.OpFailed), errors.Is(&back, fault.OutcomeUnknown))
	fmt.Println(refused)
	// Output:
	// true false
	// refund on shop: no such order [op_failed] List the orders first.
}
