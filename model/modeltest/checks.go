package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

var errHangs = errors.New("the stream does not end, although its context has")

func (cfg Config) request() *model.Request {
	if cfg.Request != nil {
		return cfg.Request()
	}
	return &model.Request{Instructions: "Answer briefly.",
		Items: []model.Item{model.Text(model.User, "hello")}}
}

// heard is everything a stream said.
type heard struct {
	text  string // of the text deltas
	done  int
	reply *model.Reply
	err   error
	after string // what came after what should have been last
}

func listen(stream iter.Seq2[model.Event, error]) heard {
	var h heard
	for ev, err := range stream {
		if h.err != nil || h.done > 0 {
			h.after = fmt.Sprintf("%q, error %v", ev.Type, err)
		}
		switch {
		case err != nil:
			h.err = err
		case ev.Type == model.Done:
			h.done++
			h.reply = ev.Reply
		case ev.Type == model.TextDelta:
			h.text += ev.Text
		}
	}
	return h
}

// whole checks a stream that should have succeeded.
func (h heard) whole() error {
	switch {
	case h.err != nil:
		return fmt.Errorf("stream failed: %w", h.err)
	case h.after != "":
		return fmt.Errorf("stream goes on after its end with %s", h.after)
	case h.done != 1:
		return fmt.Errorf("stream has %d done events, want 1", h.done)
	case h.reply == nil:
		return errors.New("done event has no reply")
	}
	return shaped(h.reply)
}

// shaped checks what every reply owes its reader.
func shaped(r *model.Reply) error {
	if len(r.Items) == 0 {
		return errors.New("reply has no items")
	}
	ids := map[string]bool{}
	for i, it := range r.Items {
		switch it.Type {
		case "":
			return fmt.Errorf("item %d has no type", i)
		case model.Message:
			if it.Role != model.Assistant {
				return fmt.Errorf("message %d has role %q, want assistant", i, it.Role)
			}
		case model.ToolCall:
			switch {
			case it.CallID == "" || ids[it.CallID]:
				return fmt.Errorf("call %d has id %q, which is empty or taken", i, it.CallID)
			case it.Name == "":
				return fmt.Errorf("call %d names no tool", i)
			case !json.Valid(it.Args):
				return fmt.Errorf("call %d has arguments that are no JSON", i)
			}
			ids[it.CallID] = true
		}
	}
	return nil
}

func endsWithOneReply(ctx context.Context, m model.Model, cfg Config) error {
	return listen(m.Stream(ctx, cfg.request())).whole()
}

func deltasAreTheText(ctx context.Context, m model.Model, cfg Config) error {
	h := listen(m.Stream(ctx, cfg.request()))
	if err := h.whole(); err != nil {
		return err
	}
	if got := h.reply.Text(); h.text != "" && h.text != got {
		return fmt.Errorf("deltas say %q, the reply %q", h.text, got)
	}
	return nil
}

func rangeTwiceAsksAgain(ctx context.Context, m model.Model, cfg Config) error {
	stream := m.Stream(ctx, cfg.request())
	for n := range 2 {
		if err := listen(stream).whole(); err != nil {
			return fmt.Errorf("range %d: %w", n+1, err)
		}
	}
	return nil
}

func cancelledBefore(ctx context.Context, m model.Model, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return listen(m.Stream(ctx, cfg.request())).endedWith(context.Canceled)
}

func cancelledMidStream(ctx context.Context, m model.Model, cfg Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	complete := false // before it could be cancelled
	first := true
	h := listen(func(yield func(model.Event, error) bool) {
		for ev, err := range m.Stream(ctx, cfg.request()) {
			if first {
				complete = ev.Type == model.Done
				first = false
				cancel()
			}
			if !yield(ev, err) {
				return
			}
		}
	})
	if complete {
		return h.whole()
	}
	return h.endedWith(context.Canceled)
}

// endedWith checks a stream whose context ended with want.
func (h heard) endedWith(want error) error {
	switch {
	case !errors.Is(h.err, want):
		return fmt.Errorf("stream ended with error %v, want %v underneath", h.err, want)
	case h.done > 0:
		return errors.New("a stream that was given up has a reply")
	case h.after != "":
		return fmt.Errorf("stream goes on after its error with %s", h.after)
	}
	return nil
}

func breakLeavesUsable(ctx context.Context, m model.Model, cfg Config) error {
	for range m.Stream(ctx, cfg.request()) {
		break
	}
	if err := listen(m.Stream(ctx, cfg.request())).whole(); err != nil {
		return fmt.Errorf("after breaking out: %w", err)
	}
	return nil
}

func concurrentStreams(ctx context.Context, m model.Model, cfg Config) error {
	const streams = 8
	errs := make([]error, streams)
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() { errs[i] = listen(m.Stream(ctx, cfg.request())).whole() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// requestIsLeftAlone writes to the request after the stream's end: the race
// detector finds a model that still reads it.
func requestIsLeftAlone(ctx context.Context, m model.Model, cfg Config) error {
	req, want := cfg.request(), cfg.request()
	if err := listen(m.Stream(ctx, req)).whole(); err != nil {
		return err
	}
	if diff := cmp.Diff(want, req); diff != "" {
		return fmt.Errorf("request was changed (-want +got):\n%s", diff)
	}
	for i := range req.Items {
		req.Items[i] = model.Text(model.User, "changed")
	}
	req.Instructions, req.Tools = "changed", nil
	return nil
}

func callsAreWhole(ctx context.Context, m model.Model, cfg Config) error {
	req := cfg.request()
	req.Tools = append(req.Tools, model.Tool{Name: "lookup", Description: "Looks something up.",
		Args: json.RawMessage(`{"type":"object","properties":{"word":{"type":"string"}}}`)})
	h := listen(m.Stream(ctx, req))
	if err := h.whole(); err != nil {
		return err
	}
	calls := h.reply.Calls()
	if len(calls) == 0 {
		return errors.New("reply has no call")
	}
	for _, c := range calls {
		if c.Name != "lookup" {
			return fmt.Errorf("call of %q, want lookup", c.Name)
		}
	}
	if h.reply.Stop != model.StopTools {
		return fmt.Errorf("reply stopped with %q, want %q", h.reply.Stop, model.StopTools)
	}
	return nil
}

func errorIsLast(ctx context.Context, m model.Model, cfg Config) error {
	h := listen(m.Stream(ctx, cfg.request()))
	switch {
	case h.err == nil:
		return errors.New("stream ended without an error")
	case h.done > 0:
		return errors.New("a failed stream has a reply")
	case h.after != "":
		return fmt.Errorf("stream goes on after its error with %s", h.after)
	}
	switch code := fault.CodeOf(h.err); code {
	case fault.ModelFailed, fault.ModelRateLimit, fault.ModelRejected, fault.ModelRefused, fault.ModelParse:
		return nil
	default:
		return fmt.Errorf("error has code %q, want one of the model's: %w", code, h.err)
	}
}

// silenceEnds lets ctx end while the stream waits for its service.
func silenceEnds(ctx context.Context, m model.Model, cfg Config) error {
	const patience = 50 * time.Millisecond // enough to be waiting by then on most machines
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return listen(m.Stream(ctx, cfg.request())).endedWith(context.DeadlineExceeded)
}
