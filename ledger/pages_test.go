package ledger_test

import (
	"fmt"
	"testing"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/storetest"
)

func TestAListGoesOnWhereItEndedWithoutReadingWhatWasBefore(t *testing.T) {
	const all, some = 5000, 100
	s := &storetest.Counter{Store: store.Memory()}
	l := open(t, s)
	for i := range all {
		begin(t, l, provider.ExecutionID(fmt.Sprintf("x%04d", i)))
	}
	part := func(after provider.ExecutionID) (ids []provider.ExecutionID, visited int64) {
		before := s.Visited.Load()
		for x, err := range l.ExecutionsAfter(t.Context(), after) {
			must(t, err)
			if ids = append(ids, x.ID); len(ids) == some {
				break
			}
		}
		return ids, s.Visited.Load() - before
	}
	n := 0
	for after := provider.ExecutionID(""); ; {
		ids, visited := part(after)
		if visited > 2*some {
			t.Fatalf("%d records were read for %d executions after %q", visited, len(ids), after)
		}
		if len(ids) == 0 {
			break
		}
		for _, id := range ids {
			if want := provider.ExecutionID(fmt.Sprintf("x%04d", n)); id != want {
				t.Fatalf("got %s, want %s", id, want)
			}
			n++
		}
		after = ids[len(ids)-1]
	}
	if n != all {
		t.Errorf("%d executions in all", n)
	}
	if ids, _ := part("x2499~"); len(ids) == 0 || ids[0] != "x2500" {
		t.Errorf("after an id that there is not: %v", ids)
	}
}
