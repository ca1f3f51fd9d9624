// Assistant answers one question with a real model and the tools of the MCP
// servers that you have configured already:
//
//	ANTHROPIC_API_KEY=… go run ./examples/assistant "What changed here this week?"
//
// The model is Anthropic's if ANTHROPIC_API_KEY is set (ANTHROPIC_BASE_URL says
// where, if elsewhere), else OpenAI's if OPENAI_API_KEY is set, or whatever
// listens at OPENAI_BASE_URL, such as a local server. The servers are those of
// .mcp.json in this folder, if there is one, or of -mcp. They are yours: their
// tools run without asking, so list only what you trust.
//
// The answer streams to standard output, the timeline of calls to standard
// error. The exit status is 0 for an answer, 1 for a failure and 2 if something
// is missing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider/mcp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "assistant:", err)
	if errors.As(err, new(missing)) {
		os.Exit(2)
	}
	os.Exit(1)
}

// missing says what to set or to write.
type missing string

func (m missing) Error() string { return string(m) }

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("assistant", flag.ContinueOnError)
	name := flags.String("model", "", "the model's `name` (default "+claude+" or "+gpt+")")
	file := flags.String("mcp", "", "the `file` with your mcpServers (default .mcp.json, if it exists)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	m, err := chooseModel(*name)
	if err != nil {
		return err
	}
	question := strings.Join(flags.Args(), " ")
	if question == "" {
		return missing(`no question; ask one: assistant [-model name] [-mcp .mcp.json] "…"`)
	}
	servers, err := configured(*file)
	if err != nil {
		return err
	}
	return answer(ctx, m, servers, question)
}

// configured reads the servers that the user has listed for other clients.
func configured(file string) (connection.Set, error) {
	if file == "" {
		file = ".mcp.json"
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
	}
	servers, err := mcp.FromConfig(file)
	if err != nil {
		return nil, err
	}
	return connection.SetOf(servers), nil
}

func answer(ctx context.Context, m model.Model, servers connection.Set, question string) (err error) {
	h, err := harness.New(harness.Config{
		Name:         "assistant",
		Model:        m,
		Instructions: "Answer the user's question. Use the tools where they help.",
		Connections:  servers,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()
	if err := h.Start(ctx); err != nil {
		return err
	}
	turn, err := h.Execute(ctx, question, nil)
	if err != nil {
		return err
	}
	out := printer{answer: os.Stdout, timeline: os.Stderr}
	for ev, err := range turn.Events(ctx) {
		if err != nil {
			return err
		}
		out.show(ev)
	}
	_, err = turn.Wait(ctx)
	return err
}

// printer keeps the answer apart from how it came about.
type printer struct {
	answer, timeline io.Writer
	open             bool // the answer's line has no end yet
}

func (p *printer) show(ev harness.Event) {
	switch ev.Type {
	case event.TextDelta:
		fmt.Fprint(p.answer, ev.Text)
		p.open = true
	case event.ModelCompleted:
		if p.open {
			fmt.Fprintln(p.answer)
		}
		p.open = false
		fmt.Fprintln(p.timeline, ev)
	case event.CallCompleted, event.ConnectionUnavailable, event.Warning, event.TurnCompleted, event.TurnAborted:
		fmt.Fprintln(p.timeline, ev)
	}
}
