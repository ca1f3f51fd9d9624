package main

import "testing"

func TestRuleAllowsFivePercent(t *testing.T) {
	for _, tt := range []struct {
		value, target float64
		want          verdict
	}{
		{0.9, 1.05, verdictOK},
		{1.05, 1.05, verdictOK},
		{1.1024, 1.05, verdictOK},
		{1.1026, 1.05, verdictShort},
		{12.5, 12, verdictOK},
		{13, 12, verdictShort},
		{-4, 12, verdictOK},
		{7, 0, verdictAim},
	} {
		if got := rule(tt.value, tt.target); got != tt.want {
			t.Errorf("%g of %g: got %s, want %s", tt.value, tt.target, got, tt.want)
		}
	}
}

func TestAFloorAllowsFivePercentBelow(t *testing.T) {
	for _, tt := range []struct {
		value, target float64
		want          verdict
	}{
		{400, 400, verdictOK},
		{4000, 400, verdictOK},
		{381, 400, verdictOK},
		{380, 400, verdictShort},
		{0, 400, verdictShort},
		{7, 0, verdictAim},
	} {
		if got := ruleFloor(tt.value, tt.target); got != tt.want {
			t.Errorf("%g of at least %g: got %s, want %s", tt.value, tt.target, got, tt.want)
		}
	}
}

func TestSpreadIsOfTheSortedValues(t *testing.T) {
	values := []float64{9, 1, 5, 3, 7}
	if got, want := spreadOf(values), (spread{3, 5, 7}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if values[0] != 9 {
		t.Error("the values were reordered")
	}
	for _, tt := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{4}, 4}, {[]float64{1, 2}, 1.5}, {[]float64{100, 1, 1}, 1}} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median of %v: got %g, want %g", tt.values, got, tt.want)
		}
	}
}
