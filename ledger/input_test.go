package ledger_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

func TestInputsAreKeptWhole(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	l, ctx := open(t, s), t.Context()
	long := json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)
	_, err := l.Begin(ctx, ledger.Execution{ID: "long", Thread: "t"}, long, nil)
	must(t, err)
	for id, text := range map[string]json.RawMessage{"one": json.RawMessage(`["a"]`), "two": json.RawMessage(`["b"]`)} {
		_, err := l.Accept(ctx, ledger.Message{ID: id, Thread: "t", Items: text})
		must(t, err)
	}
	_, err = l.Begin(ctx, ledger.Execution{ID: "turn", Thread: "t", Turn: true, Messages: []string{"two", "one", "gone"}}, nil, nil)
	must(t, err)
	begin(t, l, "short")
	for id, want := range map[string]string{"long": string(long), "short": `{"in":1}`,
		"turn": `[{"message":"two","items":["b"]},{"message":"one","items":["a"]}]`} {
		got, err := l.Input(ctx, provider.ExecutionID(id))
		must(t, err)
		if string(got) != want {
			t.Errorf("%s began with %d bytes, want %d", id, len(got), len(want))
		}
	}
	if _, err := l.Input(ctx, "none"); !errors.Is(err, fault.ExecutionUnknown) {
		t.Errorf("of what there is not: %v", err)
	}
}
