package main

import (
	"context"
	"time"
)

// figure is one number, with what it is measured against. A new one is one more
// value in a list of figures().
type figure struct {
	name  string // area/what, as in "mcp/stdio/64"
	unit  string
	about string // what is measured against which baseline, in one line
	// compare makes the value of a pair of samples. Nil takes the subject's
	// alone.
	compare func(baseline, subject float64) float64
	// target is the most that counts as ok; 0 is none, and the figure is an aim.
	target float64
	// floor makes target the least that counts as ok, for what should be much.
	floor bool
	// aim is what would be better still; it gets a line of its own. 0 is none.
	aim float64
	// open makes ready what is measured.
	open func(ctx context.Context, p plan) (*rig, error)
}

// rig is a figure ready to be measured.
type rig struct {
	baseline sampler // nil if nothing is compared
	subject  sampler
	// once says that a sample is taken in one go and cannot be made longer.
	once  bool
	close func()
}

// sampler does something n times and returns the value for one time, in the
// figure's unit.
type sampler func(ctx context.Context, n int) (float64, error)

func ratio(baseline, subject float64) float64      { return subject / baseline }
func difference(baseline, subject float64) float64 { return subject - baseline }

// plan says how thoroughly is measured.
type plan struct {
	pairs  int           // of samples, baseline and subject in turn
	sample time.Duration // how long one sample takes about; 0 does things once
	most   int           // bounds every quantity of a figure; 0 is no bound
}

// fullPlan is for figures that count. The rule wants at least nine pairs; more
// of them, rather than longer samples, are what helps on a busy machine.
func fullPlan() plan { return plan{pairs: 15, sample: 60 * time.Millisecond} }

// tinyPlan does everything once, to see whether it works.
func tinyPlan() plan { return plan{pairs: 1, most: 2} }

// many is a quantity of a figure, such as fifty servers.
func (p plan) many(n int) int {
	if p.most > 0 {
		return min(n, p.most)
	}
	return n
}
