package steps_test

import (
	"testing"

	"github.com/bridle-dev/bridle/steps"
)

func BenchmarkDo(b *testing.B) {
	type out struct {
		Name string
		N    int
	}
	small := steps.Func("small", func(steps.Context, any) (out, error) { return out{"a", 1}, nil })
	s := steps.Func("bench", func(c steps.Context, _ any) (int, error) {
		for b.Loop() {
			if _, err := steps.Do(c, small); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	b.ReportAllocs()
	if _, err := steps.Run(b.Context(), bench{}, s, nil); err != nil {
		b.Error(err)
	}
}
