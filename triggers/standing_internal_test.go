package triggers

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
)

func TestAStandingIsReadAsItWasWritten(t *testing.T) {
	for name, s := range map[string]standing{
		"bare":       {},
		"pending":    {State: Pending, Trigger: "t", Thread: "t", At: 1, Updated: 1<<63 - 1},
		"everything": {State: Running, Trigger: "t", Thread: "a\"\\\n\u2028<é>", At: 1, Updated: 2, Attempts: 3, Begun: true, Next: 4},
		"a failure":  {State: Dead, Trigger: "t", Err: fault.New(fault.StepFailed, "no"), Begun: true, Attempts: 1},
		"a decision": {State: Dropped, Trigger: "t", Reason: "no need"},
		"no text":    {State: Pending, Trigger: "t", Thread: "a\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := s.bytes()
			if err != nil {
				t.Fatal(err)
			}
			plain, err := json.Marshal(&s)
			if err != nil {
				t.Fatal(err)
			}
			var got, want standing
			if err := readRecord(raw, &got); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			if err := readRecord(plain, &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b *fault.Error) bool {
				return a == nil && b == nil || a != nil && b != nil && a.Code == b.Code
			})); diff != "" {
				t.Errorf("%s (-as json.Marshal has it +got):\n%s", raw, diff)
			}
		})
	}
}
