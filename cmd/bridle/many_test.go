package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/storetest"
)

func TestManyExecutionsAreReadOnceToBeListed(t *testing.T) {
	const all = 5000
	s := &storetest.Counter{Store: store.Memory()}
	defer s.Close()
	l, err := ledger.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		x := ledger.Execution{ID: provider.ExecutionID(fmt.Sprintf("x%04d", i)), Thread: "t", Step: "s"}
		if _, err := l.Begin(t.Context(), x, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	h, err := harness.New(harness.Config{Name: "clerk", Store: s})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	sh := shell{t: t, env: map[string]string{"BRIDLE_SOCKET": answering(t, h.Admin())}}
	visited := func(args ...string) (string, int64) {
		before := s.Visited.Load()
		return sh.want(exitDone, args...).out, s.Visited.Load() - before
	}
	out, n := visited("runs", "-json", "-limit", "1")
	var listed struct {
		Runs  []*runView
		Total int
	}
	if err := json.Unmarshal([]byte(out), &listed); err != nil || listed.Total != all || len(listed.Runs) != 1 {
		t.Errorf("lists %s, %v", out, err)
	}
	if n > all+all/10 {
		t.Errorf("%d records were read to list %d executions", n, all)
	}
	if _, n := visited("runs", "-json", "-limit", "1", "-state", "done"); n > all+all/10 {
		t.Errorf("%d records were read for those that are done", n)
	}
	if got := sh.want(exitUsage, "show", "x499").err; len(got) == 0 {
		t.Error("ten fit, and it does not say so")
	}
	before := s.Visited.Load()
	sh.want(exitMissing, "show", "x4990x")
	if n := s.Visited.Load() - before; n > all/2 {
		t.Errorf("%d records were read to look for an id that there is not", n)
	}
}
