package main

import "slices"

// tolerance is how much a median may be above its target, or below its floor:
// what is left of the noise after nine pairs and more.
const tolerance = 1.05

// verdict says whether a figure keeps its promise.
type verdict string

const (
	verdictOK     verdict = "ok"
	verdictShort  verdict = "short"  // misses its target
	verdictAim    verdict = "aim"    // no promise, or more than was promised
	verdictBroken verdict = "broken" // could not be measured
)

// rule is the verdict about a median. A target of 0 is none.
func rule(value, target float64) verdict {
	switch {
	case target == 0:
		return verdictAim
	case value <= target*tolerance:
		return verdictOK
	}
	return verdictShort
}

// ruleFloor is the verdict about a median that should not be under its target.
func ruleFloor(value, target float64) verdict {
	switch {
	case target == 0:
		return verdictAim
	case value*tolerance >= target:
		return verdictOK
	}
	return verdictShort
}

// spread is a median with its quartiles.
type spread struct {
	low, median, high float64
}

func spreadOf(values []float64) spread {
	return spread{low: quantile(values, 0.25), median: quantile(values, 0.5), high: quantile(values, 0.75)}
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile interpolates between the two nearest values; it is 0 without any.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}
