package pool_test

import (
	"context"
	"fmt"

	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/store"
)

func Example() {
	ctx := context.Background()
	owner, err := pool.Register(ctx, pool.OwnerConfig{Store: store.Memory()})
	if err != nil {
		panic(err)
	}
	if err := owner.Reap(ctx); err != nil { // what a crash left behind
		panic(err)
	}
	p, err := pool.New(pool.Config{Name: "browsers", Owner: owner, Max: 2,
		Provider: inmemory.New(inmemory.Options{Surface: "web"})})
	if err != nil {
		panic(err)
	}
	defer p.Close(ctx)

	lease, err := p.Acquire(ctx, pool.Request{Execution: "suite-42", Path: "/login"})
	if err != nil {
		panic(err)
	}
	fmt.Println(lease.Identity.Instance, "usable:", lease.Check(ctx) == nil)
	fmt.Println("in use:", p.Status().InUse)
	if err := lease.Release(ctx); err != nil {
		panic(err)
	}
	fmt.Println("in use:", p.Status().InUse)
	// Output:
	// web-2 usable: true
	// in use: 1
	// in use: 0
}
