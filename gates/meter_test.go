package gates_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/google/go-cmp/cmp"
)

var _ gates.Meter = (*gates.Totals)(nil)

func TestTotalsAddUpByEveryKey(t *testing.T) {
	totals := gates.NewTotals()
	for _, u := range []gates.Usage{
		{Connection: "notes", Op: "add", Thread: "t1", Execution: "e1", Calls: 1, Bytes: 10, Latency: time.Second},
		{Connection: "notes", Op: "add", Thread: "t1", Execution: "e2", Calls: 1, Latency: time.Second, Outcome: fault.OutcomeUnknown},
		{Connection: "notes", Op: "list", Thread: "t2", Execution: "e3", Calls: 1, Bytes: 5, Tokens: 7},
		{Connection: "shop", Op: "add", Thread: "t2", Execution: "e3", Calls: 1, Bytes: 1},
	} {
		totals.Record(t.Context(), u)
	}
	got := map[string]gates.Sum{
		"total": totals.Total(), "notes": totals.Connection("notes"), "notes.add": totals.Op("notes", "add"),
		"shop.add": totals.Op("shop", "add"), "t2": totals.Thread("t2"), "e2": totals.Execution("e2"),
		"unknown": totals.Thread("t3"),
	}
	want := map[string]gates.Sum{
		"total":     {Calls: 4, Failed: 1, Bytes: 16, Tokens: 7, Latency: 2 * time.Second},
		"notes":     {Calls: 3, Failed: 1, Bytes: 15, Tokens: 7, Latency: 2 * time.Second},
		"notes.add": {Calls: 2, Failed: 1, Bytes: 10, Latency: 2 * time.Second},
		"shop.add":  {Calls: 1, Bytes: 1},
		"t2":        {Calls: 2, Bytes: 6, Tokens: 7},
		"e2":        {Calls: 1, Failed: 1, Latency: time.Second},
		"unknown":   {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
	var ops []string
	for sum := range totals.Ops() {
		ops = append(ops, fmt.Sprint(sum.Connection, ".", sum.Op, " ", sum.Sum.Calls))
	}
	if diff := cmp.Diff([]string{"notes.add 2", "notes.list 1", "shop.add 1"}, ops); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

func TestTotalsOfParallelCallsLoseNone(t *testing.T) {
	totals := gates.NewTotals()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 500 {
				totals.Record(t.Context(), gates.Usage{Connection: "notes", Op: fmt.Sprint(i % 7),
					Execution: provider.ExecutionID(fmt.Sprint(worker)), Calls: 1, Bytes: 2})
				for range totals.Ops() {
					break
				}
			}
		})
	}
	wg.Wait()
	if got, want := totals.Total(), (gates.Sum{Calls: 4000, Bytes: 8000}); got != want {
		t.Errorf("total = %v, want %v", got, want)
	}
	if got := totals.Execution("3").Calls; got != 500 {
		t.Errorf("execution 3 has %d calls, want 500", got)
	}
}

func TestTotalsForgetWhatWasNotUsedForLong(t *testing.T) {
	totals := gates.NewTotals()
	record := func(id provider.ExecutionID) {
		totals.Record(t.Context(), gates.Usage{Connection: "notes", Op: "add", Execution: id, Calls: 1})
	}
	record("busy")
	record("idle")
	const many = 10_000
	for i := range many {
		record(provider.ExecutionID(fmt.Sprint(i)))
		record("busy")
	}
	if got := totals.Execution("idle").Calls; got != 0 {
		t.Errorf("an execution that is over still has %d calls after %d others", got, many)
	}
	if got := totals.Execution("busy").Calls; got != many+1 {
		t.Errorf("a busy execution has %d calls, want %d", got, many+1)
	}
	if got := totals.Total().Calls; got != 2*many+2 {
		t.Errorf("the total has %d calls, want %d", got, 2*many+2)
	}
}

func ExampleTotals() {
	totals := gates.NewTotals()
	var meter gates.Meter = totals // what a harness is configured with

	ctx := context.Background()
	meter.Record(ctx, gates.Usage{Connection: "notes", Op: "add", Calls: 1, Bytes: 120, Latency: 30 * time.Millisecond})
	meter.Record(ctx, gates.Usage{Connection: "notes", Op: "add", Calls: 1, Outcome: fault.OpFailed})
	meter.Record(ctx, gates.Usage{Connection: "shop", Op: "order", Calls: 1, Bytes: 64})

	for op := range totals.Ops() {
		fmt.Printf("%s %s: %d calls, %d failed, %d bytes\n", op.Connection, op.Op, op.Sum.Calls, op.Sum.Failed, op.Sum.Bytes)
	}
	fmt.Println("in all:", totals.Total().Calls)
	fmt.Println("notes:", totals.Connection(connection.Name("notes")).Calls)
	// Output:
	// notes add: 2 calls, 1 failed, 120 bytes
	// shop order: 1 calls, 0 failed, 64 bytes
	// in all: 3
	// notes: 2
}

func BenchmarkTotals(b *testing.B) {
	totals := gates.NewTotals()
	u := gates.Usage{Connection: "notes", Op: "add", Thread: "t", Execution: "e", Calls: 1, Bytes: 1024}
	b.ReportAllocs()
	for b.Loop() {
		totals.Record(b.Context(), u)
	}
}
