package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/steps"
)

func Example() {
	cheap := steps.Sequence{ID: "price", Steps: []steps.Step{
		steps.Func("ask", func(_ steps.Context, item string) (int, error) { return 10 * len(item), nil }),
		steps.Func("tax", func(_ steps.Context, net int) (int, error) { return net + net/5, nil }),
	}}
	out, err := steps.Run(context.Background(), bench{}, cheap, json.RawMessage(`"tea"`))
	fmt.Println(string(out), err)
	// Output: 36 <nil>
}

func ExampleDo() {
	ask := steps.Func("ask", func(_ steps.Context, item string) (int, error) { return 10 * len(item), nil })
	both := steps.Func("both", func(c steps.Context, _ steps.None) (int, error) {
		tea, err := steps.DoWith(c, ask, "tea")
		if err != nil {
			return 0, err
		}
		cake, err := steps.DoWith(c, ask, "cake")
		return tea + cake, err
	})
	out, err := steps.Run(context.Background(), bench{}, both, nil)
	fmt.Println(string(out), err)
	// Output: 70 <nil>
}

func ExampleParallel() {
	shop := func(id steps.ID, price int) steps.Step {
		return steps.Func(id, func(_ steps.Context, item string) (string, error) {
			return fmt.Sprintf("%s at %s for %d", item, id, price), nil
		})
	}
	ask := steps.Parallel{ID: "ask", Paths: []steps.Step{shop("corner", 7), shop("market", 5)}}
	out, err := steps.Run(context.Background(), bench{}, ask, json.RawMessage(`"tea"`))
	fmt.Println(string(out), err)
	// Output: ["tea at corner for 7","tea at market for 5"] <nil>
}

func ExampleLoop() {
	double := steps.Loop{ID: "double",
		Body: steps.Func("twice", func(_ steps.Context, n int) (int, error) { return 2 * n, nil }),
		Until: func(_ steps.Context, s steps.Snapshot) (bool, error) {
			n, err := steps.Decode[int](s.Output)
			return n > 100, err
		}}
	out, err := steps.Run(context.Background(), bench{}, double, json.RawMessage(`3`))
	fmt.Println(string(out), err)
	// Output: 192 <nil>
}

func ExampleTry() {
	book := steps.Func("book", func(steps.Context, steps.None) (string, error) {
		return "", fault.New(fault.OpFailed, "no table left")
	})
	dinner := steps.Func("dinner", func(c steps.Context, _ steps.None) (string, error) {
		got, err := steps.Do(c, steps.Try(book))
		if err != nil {
			return "", err
		}
		if errors.Is(got.Err, fault.OpFailed) {
			return "at home", nil
		}
		return got.Value, nil
	})
	out, err := steps.Run(context.Background(), bench{}, dinner, nil)
	fmt.Println(string(out), err)
	// Output: "at home" <nil>
}

func ExampleCheck() {
	fmt.Println(steps.Check(steps.Sequence{ID: "order", Steps: []steps.Step{
		steps.Call{ID: "pay", Connection: "shop"},
	}}))
	// Output: step order/pay: Op is empty [STEP_INVALID] Set Op.
}

// bench is a runtime that records nothing: enough for steps without
// connections and models.
type bench struct{ steps.Runtime }

func (bench) Info() steps.Info                                                       { return steps.Info{} }
func (bench) Items() []model.Item                                                    { return nil }
func (bench) Emit(event.Event)                                                       {}
func (bench) Leave(context.Context, steps.Path, steps.Recorded) error                { return nil }
func (bench) Enter(context.Context, steps.Path, steps.Kind) (*steps.Recorded, error) { return nil, nil }
func (bench) Recall(steps.Path) (*steps.Recorded, error)                             { return nil, nil }
func (bench) Kept(steps.Path) bool                                                   { return false }
func (b bench) Fork(context.Context, steps.Path, steps.Kind) (steps.Runtime, func(error) error, error) {
	return b, func(error) error { return nil }, nil
}
