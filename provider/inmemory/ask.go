package inmemory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/provider"
)

var errCallOver = errors.New("the call is over")

// Ask puts a question to whoever may answer for the user of this connection
// (provider.ConnectOptions.Ask), as a peer does while it works. q.Op is set to
// the operation's name. Without anyone to ask the answer declines, at once.
//
// It ends with ctx, the call and the connection. The content of an accepted
// answer fits q.Schema; no defaults are filled in. A failure to ask, an answer
// that does not fit and a schema that cannot be used are errors without a code:
// an operation that returns one has failed, and is never taken for one that did
// not act.
func (c *Call) Ask(ctx context.Context, q provider.Question) (provider.Answer, error) {
	c.uses++
	ask := c.conn.opts.Ask
	if ask == nil {
		return provider.Answer{}, nil
	}
	q.Op, q.Schema = c.req.Op, bytes.Clone(q.Schema)
	fits, err := contentCheck(q.Schema)
	if err != nil {
		return provider.Answer{}, err
	}
	ctx, end := c.whileWaited(ctx)
	defer end()
	answer, err := ask(ctx, &q)
	switch {
	case ctx.Err() != nil:
		return provider.Answer{}, cut(ctx)
	case err != nil:
		return provider.Answer{}, fmt.Errorf("no answer: %v", err) // without its code
	case answer == nil:
		return provider.Answer{}, nil
	case answer.Action != provider.Accept:
		return provider.Answer{Action: answer.Action}, nil
	}
	own := provider.Answer{Action: provider.Accept}
	if len(answer.Content) > 0 {
		own.Content = bytes.Clone(answer.Content)
	}
	return own, fits(own.Content)
}

// whileWaited returns a context that ends with the call and the connection too.
func (c *Call) whileWaited(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-c.ended:
			cancel(errCallOver)
		case <-c.conn.done:
			cancel(fmt.Errorf("nobody is there to be asked: %v", c.conn.reason())) // without its code
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(nil); watch.Wait() }
}

// contentDepth bounds the nesting of an answer.
const contentDepth = 64

// contentCheck makes the check of an accepted answer's content.
func contentCheck(document json.RawMessage) (func(json.RawMessage) error, error) {
	if len(document) == 0 {
		return func(json.RawMessage) error { return nil }, nil
	}
	form, err := schema.Compile(document)
	if err != nil {
		return nil, fmt.Errorf("the schema of the question %w", err)
	}
	return func(content json.RawMessage) error {
		tree, issue := schema.Parse(content, contentDepth)
		issues := []fault.Issue{}
		if issue != nil {
			issues = append(issues, *issue)
		} else {
			issues = form.Validate(tree)
		}
		if len(issues) == 0 {
			return nil
		}
		return fmt.Errorf("the answer does not fit the question: %s %s", issues[0].Path, issues[0].Message)
	}, nil
}
