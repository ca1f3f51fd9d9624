package provider_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

func ExampleRefused() {
	err := provider.Refused("empty", "no water")
	fmt.Println(errors.Is(err, fault.OpFailed), errors.Is(err, fault.NotSent))
	// Output: true false
}

func ExampleDecode() {
	type boiled struct{ Celsius int }
	e := provider.Event{Type: "kettle.boiled", Payload: json.RawMessage(`{"celsius":97}`)}
	b, err := provider.Decode[boiled](e)
	fmt.Println(b.Celsius, err)
	// Output: 97 <nil>
}
