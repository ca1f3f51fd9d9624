package replay

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// Fixtures is the file from which aimock answers in [Aimock].
func Fixtures() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "testdata", "aimock.json")
}

// Aimock checks a model against a running aimock at url, which speaks all
// vendors' protocols.
func Aimock(t *testing.T, fresh Maker, url string) {
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	m := fresh(t, url, client)
	ask := func(t *testing.T, text string) Heard {
		return Listen(m.Stream(t.Context(), &model.Request{Items: []model.Item{model.Text(model.User, text)}}))
	}
	t.Run("text", func(t *testing.T) {
		h := ask(t, "hello")
		const want = "Hello, you there! Été ✓ and more."
		if h.Err != nil || h.Reply.Text() != want || h.Text != want || h.Reply.Stop != model.StopEnd {
			t.Errorf("got %+v", h)
		}
	})
	t.Run("reasoning", func(t *testing.T) {
		h := ask(t, "think")
		if h.Err != nil || h.Reply.Text() != "Then I answer." || h.Reasoning != "First I think." {
			t.Errorf("got %+v", h)
		}
	})
	t.Run("bound", func(t *testing.T) {
		if h := ask(t, "length"); h.Err != nil || h.Reply.Stop != model.StopMaxTokens || h.Reply.Text() != "Short" {
			t.Errorf("got %+v", h)
		}
	})
	t.Run("calls", func(t *testing.T) { calls(t, m) })
	for text, want := range map[string]fault.Code{
		"overloaded": fault.ModelRateLimit, "slow": fault.ModelRateLimit, "reject": fault.ModelRejected, "cut": fault.ModelFailed,
	} {
		t.Run(text, func(t *testing.T) {
			if h := ask(t, text); !errors.Is(h.Err, want) || h.Reply != nil {
				t.Errorf("got %v, %v, want %s", h.Reply, h.Err, want)
			}
		})
	}
}

// calls has the model call a tool twice at once, and answers.
func calls(t *testing.T, m model.Model) {
	req := &model.Request{Items: []model.Item{model.Text(model.User, "lookup both")},
		Tools: []model.Tool{{Name: "lookup", Description: "Looks up.",
			Args: json.RawMessage(`{"type":"object","properties":{"word":{"type":"string"}}}`)}}}
	reply, err := model.Collect(m.Stream(t.Context(), req))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range reply.Calls() {
		got = append(got, c.CallID+" "+c.Name+" "+string(c.Args))
	}
	want := []string{`call_1 lookup {"word":"a \"quoted\" part, été ✓"}`, `call_2 lookup {"word":"two"}`}
	if !slices.Equal(got, want) || reply.Stop != model.StopTools {
		t.Fatalf("stopped with %q; calls are %q, want %q", reply.Stop, got, want)
	}
	req.Items = append(req.Items, reply.Items...)
	req.Items = append(req.Items, model.Result("call_1", "lookup", "found", false), model.Result("call_2", "lookup", "found twice", false))
	reply, err = model.Collect(m.Stream(t.Context(), req))
	if err != nil || reply.Text() != "Both were found, the first one twice." || reply.Stop != model.StopEnd {
		t.Errorf("got %+v, %v", reply, err)
	}
}
