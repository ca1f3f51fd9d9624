package crash_test

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/model"
)

// messages are what is said to the model, in order; each is what it is to do.
func messages() []string {
	return []string{
		"peer_once:{\"n\":1} peer_plain:{\"n\":2}\npeer_once:{\"n\":3}\npeer_book:{\"n\":4}",
		"peer_once:{\"n\":5}\npeer_put:{\"n\":6}",
		"peer_once:{\"n\":7}\npeer_once:{\"n\":8} peer_long:{\"n\":9}",
	}
}

// talk sends all messages at once: the second joins the turn of the first, or has
// one with the third.
func talk(ctx context.Context, h *harness.AgentHarness) (json.RawMessage, error) {
	var turns []*harness.Turn
	for i, text := range messages() {
		o := &harness.ExecuteOptions{Thread: thread, Message: harness.MessageID(string(rune('a' + i)))}
		if i == 1 {
			o.Delivery = harness.BetweenRounds
		}
		turn, err := h.Execute(ctx, text, o)
		if err != nil {
			return nil, err
		}
		turns = append(turns, turn)
	}
	var answers []string
	for _, turn := range turns {
		r, err := turn.Wait(ctx)
		if err != nil {
			return nil, err
		}
		answers = append(answers, r.Text)
	}
	return encode(answers), nil
}

// checkTalk looks at the history of the thread: each message is in it once, and
// each call has one result.
func (t *trial) checkTalk() {
	t.Helper()
	t.ledger(func(l *ledger.Ledger) {
		history, err := l.History(t.Context(), thread)
		if err != nil {
			t.Fatal(err)
		}
		var said, open []string
		for _, raw := range history {
			var it model.Item
			if err := json.Unmarshal(raw, &it); err != nil {
				t.Fatal(err)
			}
			switch {
			case it.Role == model.User:
				said = append(said, it.Text())
			case it.Type == model.ToolCall:
				open = append(open, it.CallID)
			case it.Type == model.ToolResult && slices.Contains(open, it.CallID):
				open = slices.DeleteFunc(open, func(id string) bool { return id == it.CallID })
			case it.Type == model.ToolResult, len(open) > 0:
				t.Errorf("the history goes on with %s while %v are open", raw, open)
			}
		}
		if diff := cmp.Diff(messages(), said); diff != "" || len(open) > 0 {
			t.Errorf("%v are open, and said was (-want +got):\n%s", open, diff)
		}
	})
	for _, name := range []string{"once 7", "once 8", "long 9"} {
		if !t.done()[name] {
			t.Errorf("%s did not happen", name)
		}
	}
}
