package gates

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/google/go-cmp/cmp"
)

func TestUsageCountsWhatTheCallerGets(t *testing.T) {
	call := &Call{Connection: "notes", Op: "add", Thread: "t", Execution: "e", Source: SourceStep, Step: "/a#0"}
	for name, c := range map[string]struct {
		out     Outcome
		bytes   int64
		outcome fault.Code
	}{
		"value":             {out: Outcome{Value: json.RawMessage(`"né"`)}, bytes: 5},
		"value and content": {out: Outcome{Value: json.RawMessage(`{}`), Content: []provider.Content{{Text: "{}"}}}, bytes: 2},
		"content":           {out: Outcome{Content: []provider.Content{{Text: "née"}, {Data: []byte{1, 2, 3}}}}, bytes: 7},
		"nothing":           {},
		"refused":           {out: Outcome{Err: fault.New(fault.SteeringDenied, "no")}, outcome: fault.SteeringDenied},
		"no code":           {out: Outcome{Err: errors.New("reset")}, outcome: fault.OutcomeUnknown},
		"failed with text": {
			out:   Outcome{Value: json.RawMessage(`{}`), Err: fault.New(fault.OpFailed, "no")},
			bytes: 0, outcome: fault.OpFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.out.Duration = time.Second
			want := Usage{Connection: "notes", Op: "add", Thread: "t", Execution: "e", Source: SourceStep, Step: "/a#0",
				Calls: 1, Bytes: c.bytes, Latency: time.Second, Outcome: c.outcome}
			if diff := cmp.Diff(want, usageOf(call, &c.out)); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}
