package scripted_test

import (
	"context"
	"fmt"

	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
)

func Example() {
	m := scripted.New(
		scripted.CallTool("notes_add", map[string]any{"text": "hello"}),
		scripted.Say("Done."),
	)
	items := []model.Item{model.Text(model.User, "Note hello.")}
	for range 2 {
		reply, err := model.Collect(m.Stream(context.Background(), &model.Request{Items: items}))
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, call := range reply.Calls() {
			fmt.Println(call.CallID, call.Name, string(call.Args))
			items = append(items, call, model.Result(call.CallID, call.Name, "noted", false))
		}
		fmt.Println(reply.Text())
	}
	fmt.Println(len(m.Requests()[1].Items), "items in the second request")
	// Output:
	// call_1 notes_add {"text":"hello"}
	//
	// Done.
	// 3 items in the second request
}
