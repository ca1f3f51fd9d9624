package harness_test

import (
	"context"
	"fmt"
	"log"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/steps"
)

// Each path of a test suite has a browser of its own, which is gone when the path
// ends. Only two exist at once, so one path waits for its turn.
func ExampleRun_pool() {
	ctx := context.Background()
	browsers := inmemory.New(inmemory.Options{Provision: func(context.Context, *provider.ProvisionRequest) (inmemory.Options, error) {
		pages := 0
		open := func(context.Context, *inmemory.Call, any) (int, error) { pages++; return pages, nil }
		return inmemory.Options{Surface: "web", Operations: map[string]inmemory.Operation{"open": inmemory.Func(open)}}, nil
	}})
	h, err := harness.New(harness.Config{Name: "tester", Connections: connection.Set{
		"browsers": {Provider: browsers, Pool: &connection.Pool{Max: 2}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)

	browser := connection.NewHandle("browser", nil, &connection.HandleOptions[any]{From: "browsers", Fresh: connection.FreshPath})
	visit := func(id steps.ID) steps.Step {
		open := steps.Call{ID: "open", Handle: browser, Op: "open"}
		return steps.Sequence{ID: id, Steps: []steps.Step{open, open}}
	}
	suite := steps.Parallel{ID: "suite", Paths: []steps.Step{visit("login"), visit("search"), visit("order")}}
	pages, err := harness.Run(ctx, h, steps.As[[]int](suite), nil, nil)
	fmt.Println("pages opened in each browser:", pages, err)
	fmt.Println("browsers open:", h.Status().Connections[0].Pool.Open)
	// Output:
	// pages opened in each browser: [2 2 2] <nil>
	// browsers open: 0
}
