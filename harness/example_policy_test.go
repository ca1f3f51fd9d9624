package harness_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/steps"
)

// A policy applies to steps that the author of a program wrote as it does to
// models.
func ExampleRun_policy() {
	ctx := context.Background()
	h, err := harness.New(harness.Config{Name: "clerk", Connections: connection.Set{
		"shop": {Provider: shop(), Policy: connection.Policy{Deny: []string{"refund*"}}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)

	work := steps.Func("work", func(c steps.Context, amounts []int) (string, error) {
		for _, amount := range amounts {
			if _, err := steps.Do(c, steps.Call{ID: "pay", Connection: "shop", Op: "pay", Args: payArgs{amount}}); err != nil {
				return "", err
			}
		}
		_, err := steps.Do(c, steps.Call{ID: "refund", Connection: "shop", Op: "refund"})
		return fmt.Sprintf("paid %d, refund denied: %t", len(amounts), errors.Is(err, fault.SteeringDenied)), nil
	})
	said, err := harness.Run(ctx, h, work, []int{20, 30}, nil)
	fmt.Println(said, err)
	// Output: paid 2, refund denied: true <nil>
}
