package triggers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// Order is what the shop lists, and the payload of "order.placed".
type Order struct {
	ID    int    `json:"id"`
	Thing string `json:"thing"`
}

// poll asks a list for what came after the last id it saw. A list that does not
// answer ends Start, and whoever listens tries again later, with pauses.
func poll(list string, every time.Duration) func(context.Context, provider.Cursor, func(context.Context, triggers.Emission) error) error {
	return func(ctx context.Context, after provider.Cursor, emit func(context.Context, triggers.Emission) error) error {
		for {
			orders, err := ordersAfter(ctx, list, after)
			if err != nil {
				return err
			}
			for _, o := range orders {
				id := strconv.Itoa(o.ID)
				err := emit(ctx, triggers.Emission{Type: "order.placed", ID: provider.EventID(id), Payload: o, Cursor: provider.Cursor(id)})
				if err != nil {
					return err
				}
				after = provider.Cursor(id)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(every):
			}
		}
	}
}

func ordersAfter(ctx context.Context, list string, after provider.Cursor) (orders []Order, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, list+"?after="+url.QueryEscape(string(after)), nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the list answered %s", res.Status)
	}
	return orders, json.NewDecoder(http.MaxBytesReader(nil, res.Body, 1<<20)).Decode(&orders)
}

// shop lists three orders.
func shop(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	orders := []Order{{1, "kettle"}, {2, "cups"}, {3, "tea"}}
	_ = json.NewEncoder(w).Encode(orders[min(after, len(orders)):])
}

// A source that asks a list over HTTP what is new.
func ExampleNewSource_httpPoller() {
	server := httptest.NewServer(http.HandlerFunc(shop))
	defer server.Close()
	ctx := context.Background()
	source := triggers.NewSource([]triggers.EventType{triggers.Declare[Order]("order.placed")},
		&triggers.SourceOptions{Start: poll(server.URL, 10*time.Millisecond)})
	conns, err := source.Connect(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conns[0].Release(ctx)

	// The cursor is what was stored with the last event that was dealt with.
	sub, err := conns[0].(provider.Listener).Listen(ctx, &provider.ListenRequest{Event: "order.placed", After: "1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range sub.Events() {
		o, _ := provider.Decode[Order](e)
		fmt.Println(e.ID, o.Thing, err)
		if e.Cursor == "3" {
			break
		}
	}
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// 2 cups <nil>
	// 3 tea <nil>
}
