// Quickstart runs one agent turn over two real MCP servers, without a key and
// without a network: a notes server as a child process, which is this program
// serving itself, and a weather server over HTTP on loopback.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider/mcp"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run := agent
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		run = serveNotes
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// agent notes the weather: it asks one server and tells the other.
func agent(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	weatherURL, stop, err := serveWeather()
	if err != nil {
		return err
	}
	defer stop()

	h, err := harness.New(harness.Config{
		Name:         "quickstart",
		Model:        script(),
		Instructions: "Use the tools.",
		Connections: connection.Set{
			"notes":   {Provider: mcp.Command(self, "serve")},
			"weather": {Provider: mcp.HTTP(weatherURL, nil), Policy: connection.Policy{Deny: []string{"set_*"}}},
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := h.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	if err := h.Start(ctx); err != nil {
		return err
	}
	turn, err := h.Execute(ctx, "Note the weather in Oslo, and make it sunny", nil)
	if err != nil {
		return err
	}
	for ev, err := range turn.Events(ctx) {
		if err != nil {
			return err
		}
		if shown(ev) {
			fmt.Println(ev)
		}
	}
	answer, err := turn.Wait(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n", answer.Text)
	return nil
}

// script is a model that knows its lines: it looks at what the tools returned,
// as a real one would, but what it does next is written down.
func script() model.Model {
	return scripted.New(
		scripted.CallTool("weather_forecast", map[string]any{"city": "Oslo"}),
		scripted.Respond(func(req *model.Request) scripted.Round {
			return scripted.CallTools(
				scripted.Call{Name: "notes_add", Args: map[string]any{"text": lastResult(req)}},
				scripted.Call{Name: "weather_set_weather", Args: map[string]any{"city": "Oslo", "sky": "sunny"}},
			)
		}),
		scripted.CallTool("notes_list", nil),
		scripted.Respond(func(req *model.Request) scripted.Round {
			return scripted.Say("I noted: " + lastResult(req) + ". Making it sunny was refused.")
		}),
	)
}

func lastResult(req *model.Request) string { return req.Items[len(req.Items)-1].Text() }

// shown leaves out what would be noise in a first look.
func shown(ev harness.Event) bool {
	switch ev.Type {
	case event.MessageAccepted, event.ModelCompleted, event.CallCompleted, event.Warning,
		event.TurnCompleted, event.TurnAborted:
		return true
	}
	return false
}
