package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider/mcp"
)

const (
	// startServers is how many servers are started at once.
	startServers = 50
	// singleStarts is how many single starts make one sample.
	singleStarts = 5
)

func startFigures() []figure {
	return []figure{{
		name: "start/stdio50", unit: "x", compare: ratio,
		target: 1.5 * startServers / float64(runtime.GOMAXPROCS(0)),
		about:  "a harness that starts 50 stdio servers against one that starts a single server",
		open: func(_ context.Context, p plan) (*rig, error) {
			command, err := serverCommand()
			if err != nil {
				return nil, err
			}
			return &rig{
				once:     true,
				baseline: starts(command, 1, p.many(singleStarts)),
				subject:  starts(command, p.many(startServers), 1),
				close:    func() {},
			}, nil
		},
	}}
}

// starts samples the time until all of a harness's servers are ready; closing
// them is not part of it.
func starts(command []string, servers, times int) sampler {
	return func(ctx context.Context, _ int) (float64, error) {
		var took time.Duration
		for range times {
			one, err := start(ctx, command, servers)
			if err != nil {
				return 0, err
			}
			took += one
		}
		return micros(took) / float64(times), nil
	}
}

func start(ctx context.Context, command []string, servers int) (time.Duration, error) {
	set := connection.Set{}
	for i := range servers {
		set[connection.Name(fmt.Sprintf("server-%d", i))] = connection.Entry{Provider: mcp.Stdio(command, nil), Required: true}
	}
	h, err := harness.New(harness.Config{Name: "bench", Connections: set})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = h.Start(ctx)
	took := time.Since(began)
	if closing := h.Close(context.WithoutCancel(ctx)); err == nil {
		err = closing
	}
	return took, err
}
