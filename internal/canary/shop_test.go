package canary_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

// newShop is the server in this process. It registers as credentials what
// nobody else does, so that the secrets of hooks, tools and models are known.
func newShop(v *vault) *inmemory.Provider {
	reply := inmemory.Reply(map[string]string{"shop": "open"})
	return inmemory.New(inmemory.Options{
		Surface:     "shop-" + v.of("identity"),
		Credentials: slices.Collect(maps.Values(v.keptBy(byCredential))),
		Events:      map[string]provider.EventType{"order.paid": {Replay: provider.ReplayCursor}, "order.noted": {Replay: provider.ReplayCursor}},
		Operations: map[string]inmemory.Operation{
			"echo": {Run: func(_ context.Context, c *inmemory.Call) (*provider.CallResult, error) {
				return &provider.CallResult{Value: c.Args()}, nil
			}},
			"unlock": {Run: func(_ context.Context, c *inmemory.Call) (*provider.CallResult, error) {
				return &provider.CallResult{Value: c.Args()}, nil
			}},
			"emit": {Run: func(_ context.Context, c *inmemory.Call) (*provider.CallResult, error) {
				c.Emit("order.paid", map[string]string{"note": v.says("event"), v.of("event"): "name"})
				return &provider.CallResult{}, nil
			}},
			"note": {Run: func(_ context.Context, c *inmemory.Call) (*provider.CallResult, error) {
				c.Emit("order.noted", map[string]string{"note": v.says("trigger event"), v.of("trigger event"): "name"})
				return &provider.CallResult{}, nil
			}},
			"photo": {
				Operation: provider.Operation{Result: json.RawMessage(`{"type":"object","properties":{"photo":{"type":"string","x-blob":{"mimeTypes":["image/png"]}}}}`)},
				Run: func(context.Context, *inmemory.Call) (*provider.CallResult, error) {
					return encoded(map[string]string{"photo": base64.StdEncoding.EncodeToString([]byte("\x89PNG " + v.of("blob") + " "))})
				},
			},
			"explode": {Run: func(context.Context, *inmemory.Call) (*provider.CallResult, error) { panic(v.long("provider panic")) }},
			"pay":     reply, "refund": reply, "ship": reply, "gift": reply, "later": reply, "plain": reply,
			"forbidden": reply, "touchy": reply, "loose": reply, "lax": reply, "unmetered": reply, "unaudited": reply, "unkept": reply,
		},
	})
}

func encoded(value any) (*provider.CallResult, error) {
	raw, err := json.Marshal(value)
	return &provider.CallResult{Value: raw}, err
}

// errSaid makes an error of a text.
func errSaid(text string) error { return errors.New(text) }
