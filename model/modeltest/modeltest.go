// Package modeltest is the conformance kit for models. An adapter runs it from
// its own test, against a server that it controls or a recorded one:
//
//	func TestModel(t *testing.T) {
//		modeltest.Run(t, modeltest.Config{New: func(t *testing.T) model.Model { return newModel(t, server(t)) }})
//	}
//
// Each subtest gets a model of its own and must end within a limit. The kit
// checks that streams end with exactly one whole reply, that they end with
// ctx and when the reader breaks out, that they can run concurrently and again,
// that requests are left alone, and that nothing is left running.
package modeltest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/model"
)

// Config tells the kit about a model. Only New is required; cases that need
// another field are skipped without it.
type Config struct {
	// New makes a model that answers every request with some text. It cleans up
	// by t.Cleanup.
	New func(t *testing.T) model.Model
	// Request makes a request that the model answers. Default: a user's hello.
	Request func() *model.Request
	// Calling makes a model that answers Request, with the tool "lookup" added
	// to it, by calling that tool.
	Calling func(t *testing.T) model.Model
	// Failing makes a model whose service answers with an error.
	Failing func(t *testing.T) model.Model
	// Silent makes a model whose service accepts requests and then says
	// nothing.
	Silent func(t *testing.T) model.Model
	// Limit bounds each case. 0 is 20 s.
	Limit time.Duration
}

// check is one case of the kit: it returns what is wrong.
type check struct {
	name string
	make func(Config) func(*testing.T) model.Model
	run  func(context.Context, model.Model, Config) error
}

// checks lists the cases. Each is run with a model of its own.
func checks() []check {
	answering := func(c Config) func(*testing.T) model.Model { return c.New }
	return []check{
		{"EndsWithOneReply", answering, endsWithOneReply},
		{"DeltasAreTheText", answering, deltasAreTheText},
		{"RangeTwiceAsksAgain", answering, rangeTwiceAsksAgain},
		{"CancelledBefore", answering, cancelledBefore},
		{"CancelledMidStream", answering, cancelledMidStream},
		{"BreakLeavesTheModelUsable", answering, breakLeavesUsable},
		{"ConcurrentStreams", answering, concurrentStreams},
		{"RequestIsLeftAlone", answering, requestIsLeftAlone},
		{"CallsAreWhole", func(c Config) func(*testing.T) model.Model { return c.Calling }, callsAreWhole},
		{"ErrorIsTheLastPair", func(c Config) func(*testing.T) model.Model { return c.Failing }, errorIsLast},
		{"SilenceEndsWithContext", func(c Config) func(*testing.T) model.Model { return c.Silent }, silenceEnds},
	}
}

// Run checks a model against the contract of package model.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.New == nil {
		t.Fatal("modeltest: Config.New is nil")
	}
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			if c.make(cfg) == nil {
				t.Skip("the configuration has no model for this")
			}
			ignore := goleak.IgnoreCurrent()
			// Registered first, so that it runs after the model's own cleanup.
			t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
			if err := c.on(t, cfg); err != nil {
				t.Error(err)
			}
		})
	}
}

// on runs the case within its limit.
func (c check) on(t *testing.T, cfg Config) error {
	limit := cfg.Limit
	if limit <= 0 {
		limit = 20 * time.Second
	}
	m := c.make(cfg)(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.run(ctx, m, cfg) }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit + time.Second):
		return errHangs
	}
}
