package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
	"github.com/bridle-dev/bridle/store"
)

// A server whose posts reach everybody once, and only with somebody's consent.
func Example() {
	type postArgs struct {
		Channel string `json:"channel"`
		Text    string `json:"text"`
	}
	type posted struct {
		Message string `json:"message" jsonschema_extras:"x-ref=chat.message"`
	}
	chat := &provider.Profile{Name: "chat", Version: "1.0.0", Operations: []provider.Operation{
		{Name: "chat.post", Description: "Posts a message.", Facts: provider.Facts{Effects: true, Once: true}},
	}}
	server := sdk.NewServer(&sdk.Implementation{Name: "chat", Version: "1.0.0"}, nil)
	kit := mcpserver.New(server, &mcpserver.Options{Store: store.Memory(), Profiles: []*provider.Profile{chat}})
	messages := 0
	mcpserver.Add(kit, "chat.post", func(_ context.Context, c *mcpserver.Call, a postArgs) (posted, error) {
		if a.Channel == "#all" && !c.Approved() {
			return posted{}, mcpserver.Guarded("#all", "reaches everyone")
		}
		messages++
		return posted{fmt.Sprint("m", messages)}, nil
	})
	if err := kit.Check(); err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	conns, err := mcp.InMemory(server, nil).Connect(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conns[0].Release(ctx)
	post := &provider.CallRequest{Op: "chat.post", Args: json.RawMessage(`{"channel":"#all","text":"hello"}`), Key: "run-1:step:/post"}
	_, err = conns[0].Call(ctx, post)
	fmt.Println(errors.Is(err, fault.Guarded))
	post.Approval = "granted"
	for range 3 {
		res, err := conns[0].Call(ctx, post)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(res.Value))
	}
	fmt.Println(conns[0].Manifest().Profiles, messages)
	// Output:
	// true
	// {"message":"m1"}
	// {"message":"m1"}
	// {"message":"m1"}
	// [chat@1.0.0] 1
}

// Effect and outcome in one transaction: wherever the process dies, a repeated
// key finds both or neither.
func ExampleCommit() {
	type bookArgs struct {
		Seat string `json:"seat"`
	}
	type booked struct {
		Seat string `json:"seat"`
	}
	db := store.Memory()
	server := sdk.NewServer(&sdk.Implementation{Name: "seats", Version: "1.0.0"}, nil)
	destructive := false
	kit := mcpserver.New(server, &mcpserver.Options{
		Store: db, Repeatable: []string{"book"},
		Operations: []provider.Operation{{
			Name: "book", Hints: provider.Hints{Destructive: &destructive}, Facts: provider.Facts{Effects: true, Once: true},
		}},
	})
	mcpserver.Add(kit, "book", func(ctx context.Context, c *mcpserver.Call, a bookArgs) (booked, error) {
		return mcpserver.Commit(ctx, c, func(tx store.Tx) (booked, error) {
			_, taken, err := tx.Get("seats", a.Seat)
			if err != nil {
				return booked{}, err
			}
			if taken {
				return booked{}, provider.Refused("taken", a.Seat+" is taken")
			}
			return booked(a), tx.Put("seats", a.Seat, []byte(c.Key()))
		})
	})

	ctx := context.Background()
	conns, err := mcp.InMemory(server, nil).Connect(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conns[0].Release(ctx)
	for _, key := range []provider.Key{"alice", "alice", "bob"} {
		res, err := conns[0].Call(ctx, &provider.CallRequest{Op: "book", Args: json.RawMessage(`{"seat":"1A"}`), Key: key})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(string(res.Value))
	}
	// Output:
	// {"seat":"1A"}
	// {"seat":"1A"}
	// taken: 1A is taken [op_failed]
}

// An operation of which nobody said whether it is destructive is not served.
func ExampleKit_Check() {
	server := sdk.NewServer(&sdk.Implementation{Name: "disk", Version: "1.0.0"}, nil)
	kit := mcpserver.New(server, &mcpserver.Options{
		Operations: []provider.Operation{{Name: "format", Description: "Formats the disk."}},
	})
	mcpserver.Add(kit, "format", func(context.Context, *mcpserver.Call, struct{}) (struct{}, error) {
		return struct{}{}, nil
	})
	fe, _ := errors.AsType[*fault.Error](kit.Check())
	for _, issue := range fe.Issues {
		fmt.Println(issue.Path, issue.Message)
	}
	// Output: /operations/format/hints do not say whether it is destructive; set Hints.Destructive, or Hints.ReadOnly to true
}

// What a command printed, as a result that says what it is and what is missing.
func ExampleNewOutput() {
	fmt.Println(mcpserver.NewOutput("make test", 2, []byte("ok a\nFAIL b\nok c\n"), 11))
	// Output:
	// $ make test
	// (exit 2)
	// ok a
	// FAIL b
	// [cut: 11 of 17 bytes are shown]
}
