// Package steps holds the units of work that a harness runs and can resume: a
// call of a connection, a wait for an event, a question to a model, a Go
// function, and the ways to put them together.
//
// Control flow is written as struct literals. What infers types is a function:
//
//	steps.Sequence{ID: "order", Steps: []steps.Step{
//		steps.Call{ID: "price", Connection: "shop", Op: "price.read"},
//		steps.Func("cheap", func(c steps.Context, p Price) (bool, error) { return p.Cents < 1000, nil }),
//		steps.If{ID: "buy", Cond: steps.Input(func(c steps.Context, ok bool) (bool, error) { return ok, nil }),
//			Then: steps.Call{ID: "order", Connection: "shop", Op: "order.place"}},
//	}}
//
// The same in code, where each Do is a step of its own:
//
//	steps.Func("order", func(c steps.Context, in Order) (Receipt, error) {
//		price, err := steps.Do(c, steps.As[Price](steps.Call{ID: "price", Connection: "shop", Op: "price.read"}))
//		if err != nil || price.Cents >= in.Limit {
//			return Receipt{}, err
//		}
//		return steps.Do(c, steps.As[Receipt](steps.Call{ID: "order", Connection: "shop", Op: "order.place"}))
//	})
//
// # Resuming
//
// Each run of a step has a [Path], and what it comes to is recorded under it
// before anyone sees it. When an execution is resumed its code runs again from
// the top, and every step with a record returns that instead of running. So
// the code around steps must come to the same steps again: it decides from its
// input and from outputs of steps, and gets the clock and random numbers
// through [Record].
//
// A step's output is JSON, live as well as resumed. A failure is recorded too,
// and a function that went on after one meets it again.
//
// # Errors
//
// A step fails with a *fault.Error that has the code of its cause if the cause
// is one, else step_failed; Step is the path of the innermost step that failed.
// Errors come out of the record: what they wrap is there by code and text, not
// by Go type. Timeout is a step's own deadline. Cancelled is the end of the run
// around it, which is recorded nowhere, so that the step runs again on a
// resume. Code that panics fails its step with panicked.
//
// Mistakes in the steps themselves are configuration errors; [Check] finds them
// without running anything.
//
// # Concurrency
//
// Steps are values without state: keep, share and run them concurrently. Every
// goroutine that a step starts has ended when the step returns.
package steps
