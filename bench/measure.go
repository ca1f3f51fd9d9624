package main

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// finding is what came of the pairs of one figure.
type finding struct {
	value    spread
	baseline float64 // median; 0 without a baseline
	subject  float64 // median
}

// measure takes the samples of a figure, baseline and subject in turn, so that
// what else the machine does hits both.
func measure(ctx context.Context, f figure, p plan) (finding, error) {
	r, err := f.open(ctx, p)
	if err != nil {
		return finding{}, err
	}
	defer r.close()
	ofBaseline, err := length(ctx, r, r.baseline, p)
	if err != nil {
		return finding{}, err
	}
	ofSubject, err := length(ctx, r, r.subject, p)
	if err != nil {
		return finding{}, err
	}
	var values, baselines, subjects []float64
	for range p.pairs {
		b, err := take(ctx, r.baseline, ofBaseline)
		if err != nil {
			return finding{}, err
		}
		s, err := take(ctx, r.subject, ofSubject)
		if err != nil {
			return finding{}, err
		}
		value := s
		if f.compare != nil {
			value = f.compare(b, s)
		}
		values, baselines, subjects = append(values, value), append(baselines, b), append(subjects, s)
	}
	return finding{value: spreadOf(values), baseline: median(baselines), subject: median(subjects)}, nil
}

// take takes one sample, beginning without garbage of the one before.
func take(ctx context.Context, s sampler, n int) (float64, error) {
	if s == nil {
		return 0, nil
	}
	runtime.GC()
	value, err := s(ctx, n)
	return value, errors.Join(err, context.Cause(ctx))
}

// length finds out how often something is to be done for one sample, and warms
// it up meanwhile.
func length(ctx context.Context, r *rig, s sampler, p plan) (int, error) {
	if r.once || s == nil || p.sample == 0 {
		return 1, nil
	}
	for n := 1; ; {
		began := time.Now()
		if _, err := take(ctx, s, n); err != nil {
			return 0, err
		}
		took := time.Since(began)
		if took >= p.sample/2 {
			return max(1, int(float64(n)*float64(p.sample)/float64(took))), nil
		}
		n *= 2
	}
}

// timed samples the time of op in µs, and divides it by per: one op may do
// several times what the figure is about.
func timed(per int, op func(context.Context) error) sampler {
	return func(ctx context.Context, n int) (float64, error) {
		began := time.Now()
		for range n {
			if err := op(ctx); err != nil {
				return 0, err
			}
		}
		return micros(time.Since(began)) / float64(n*per), nil
	}
}

// timedBy is timed for callers that do op at the same time, n times each. The
// value is the whole time divided by the number of calls.
func timedBy(callers int, op func(context.Context) error) sampler {
	return func(ctx context.Context, n int) (float64, error) {
		work, ctx := errgroup.WithContext(ctx)
		began := time.Now()
		for range callers {
			work.Go(func() error {
				for range n {
					if err := op(ctx); err != nil {
						return err
					}
				}
				return nil
			})
		}
		err := work.Wait()
		return micros(time.Since(began)) / float64(n*callers), err
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// counted samples the allocations of op, which are exact.
func counted(op func(context.Context) error) sampler {
	return func(ctx context.Context, n int) (float64, error) {
		var failed error
		count := testing.AllocsPerRun(n, func() {
			if err := op(ctx); err != nil {
				failed = err
			}
		})
		return count, failed
	}
}
