package model_test

import (
	"context"
	"fmt"
	"iter"

	"github.com/bridle-dev/bridle/model"
)

// Echo repeats the last item.
type Echo struct{}

func (Echo) Stream(_ context.Context, req *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		text := req.Items[len(req.Items)-1].Text()
		if yield(model.Delta(text), nil) {
			yield(model.Finish(&model.Reply{Items: []model.Item{model.Text(model.Assistant, text)}}), nil)
		}
	}
}

func Example() {
	req := &model.Request{Items: []model.Item{model.Text(model.User, "anyone there?")}}
	reply, err := model.Collect(Echo{}.Stream(context.Background(), req))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reply.Text())
	// Output: anyone there?
}
