package modeltest_test

import (
	"testing"

	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/modeltest"
	"github.com/bridle-dev/bridle/model/scripted"
)

func Example() {
	// In the adapter's own test file:
	_ = func(t *testing.T) {
		modeltest.Run(t, modeltest.Config{
			New: func(*testing.T) model.Model { return scripted.New(scripted.Say("hi")) },
		})
	}
	// Output:
}
