package harness_test

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// owners are blobs that tell whose they are.
type owners struct {
	refs.Blobs

	mu   sync.Mutex
	puts int
	all  map[string]int
}

func (o *owners) Put(ctx context.Context, info refs.BlobInfo, content io.Reader) (refs.BlobInfo, error) {
	o.mu.Lock()
	o.puts++
	o.all[info.Owner]++
	o.mu.Unlock()
	return o.Blobs.Put(ctx, info, content)
}

func (o *owners) Collect(ctx context.Context, owner string) (int, error) {
	o.mu.Lock()
	delete(o.all, owner)
	o.mu.Unlock()
	return o.Blobs.Collect(ctx, owner)
}

// TestABlobOfAnEventBelongsToItsExecution sends an event with a blob twice: what the
// second one brought along is collected at once.
func TestABlobOfAnEventBelongsToItsExecution(t *testing.T) {
	st := store.Memory()
	defer st.Close()
	blobs := &owners{Blobs: refs.MemoryBlobs(nil), all: map[string]int{}}
	shot := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"shot":{"type":"string","x-blob":{}}}}`)
	bell := triggers.NewSource([]triggers.EventType{{Name: "rang", Payload: shot}}, nil)
	ran := make(chan provider.ExecutionID, 2)
	h := open(t, harness.Config{Store: st, Blobs: blobs, Triggers: []triggers.Trigger{onRing()}, Inbox: soon(),
		Connections: connection.Set{"bell": {Provider: bell}},
		Graph: graphOf(func(c steps.Context) (string, error) {
			ran <- c.Execution()
			return "ok", nil
		})})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ring := triggers.Emission{Type: "rang", ID: "r1", Payload: map[string]any{"n": 1, "shot": "aGVsbG8="}}
		if err := bell.Emit(t.Context(), ring); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{string(<-ran): 1}
	blobs.mu.Lock()
	defer blobs.mu.Unlock()
	if diff := cmp.Diff(want, blobs.all); diff != "" || blobs.puts != 2 {
		t.Errorf("%d blobs were put away; those that are left, by owner (-want +got):\n%s", blobs.puts, diff)
	}
}
