// First lets a model use the MCP server named on the command line.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider/mcp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	h := must(harness.New(harness.Config{
		Name:        "first",
		Model:       scripted.New(scripted.CallTool("everything_echo", map[string]any{"message": "hello"}), scripted.Say("It echoes.")),
		Connections: connection.Set{"everything": {Provider: mcp.Stdio(os.Args[1:], nil), Required: true}},
	}))
	defer h.Close(context.WithoutCancel(ctx))
	turn := must(h.Execute(ctx, "Try the echo tool", nil))
	for ev, err := range turn.Events(ctx) {
		fmt.Println(must(ev, err))
	}
	must(turn.Wait(ctx))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
