package triggers

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/provider"
)

func TestWhatStaysInMemoryIsWhatWouldBeRead(t *testing.T) {
	now := time.Now()
	for name, ev := range map[string]Event{
		"bare":       {Kind: provider.EventOccurred, ID: "1", Type: "happened"},
		"everything": {Kind: provider.EventOccurred, ID: "1", Type: "happened", Payload: json.RawMessage(`{"a":"b\n"}`), Time: now.UTC(), Cursor: "7", Identity: &provider.Identity{Surface: "s", Instance: "i", Epoch: "e"}},
		"odd text":   {Kind: provider.EventOccurred, ID: "<\u2028\ufffd>&\x00\"", Type: "é", Payload: json.RawMessage("{\"a\": \"\xff\"}"), Time: now.UTC()},
		"no text":    {Kind: provider.EventOccurred, ID: "1\xff", Type: "happened"},
		"long":       {Kind: provider.EventOccurred, ID: "1", Type: "happened", Payload: json.RawMessage(`"` + strings.Repeat("x", maxInline) + `"`)},
	} {
		t.Run(name, func(t *testing.T) {
			it := &item{message: stored{ID: "peer:t:1", Execution: newExecution(now), Trigger: "t", Connection: "peer", Thread: "t", Event: ev, At: now}}
			var err error
			if it.record, it.apart, err = it.message.bytes(); err != nil {
				t.Fatal(err)
			}
			read, err := readStored(it.record)
			if err != nil {
				t.Fatal(err)
			}
			got := it.asRead()
			if got == nil {
				if name != "no text" && name != "long" {
					t.Error("it would be read again")
				}
				return
			}
			if diff := cmp.Diff(read, got); diff != "" {
				t.Errorf("(-read +in memory):\n%s", diff)
			}
			if again, _, err := got.bytes(); err != nil || string(again) != string(it.record) {
				t.Errorf("its record would be %s, %v", again, err)
			}
		})
	}
}
