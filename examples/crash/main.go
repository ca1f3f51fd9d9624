// Crash shows a run that survives its process. It orders something at a shop: it
// reserves, charges a card and ships. Right after the shop has charged the card,
// and before anybody was told, the process is ended with SIGKILL. A second process
// resumes the run: what is recorded is not done again, and the charge is asked for
// once more under its key, which the shop knows.
//
//	go run ./examples/crash
//
// This program is all of them: it starts itself as the process that is killed, as
// the one that resumes, and each of these starts it as the shop, an MCP server.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store/bolt"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	switch {
	case len(os.Args) < 3:
		err = show(ctx)
	case os.Args[1] == "shop":
		err = serveShop(ctx, os.Args[2])
	default:
		err = order(ctx, os.Args[2])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// show kills one process and has another go on.
func show(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "crash")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("first process")
	first, err := begin(ctx, dir)
	if err != nil {
		return err
	}
	if err := charged(ctx, dir); err != nil {
		return err
	}
	if err := first.Process.Kill(); err != nil {
		return err
	}
	fmt.Printf("  killed: %v\n\nsecond process\n", first.Wait())
	second, err := begin(ctx, dir)
	if err != nil {
		return err
	}
	if err := second.Wait(); err != nil {
		return err
	}
	n, err := charges(ctx, dir)
	fmt.Printf("\nThe shop charged the card %d time(s).\n", n)
	return err
}

// begin starts this program as the process that runs the order.
func begin(ctx context.Context, dir string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "order", dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd, cmd.Start()
}

// order runs the order, or goes on with it: which of the two, the store knows.
func order(ctx context.Context, dir string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	db, err := bolt.Open(filepath.Join(dir, "agent.db"), nil)
	if err != nil {
		return err
	}
	defer db.Close()
	h, err := harness.New(harness.Config{
		Name:        "orders",
		Store:       db,
		Profiles:    []*harness.Profile{shop()},
		Connections: connection.Set{"shop": {Provider: mcp.Command(self, "shop", dir)}},
	})
	if err != nil {
		return err
	}
	defer h.Close(context.WithoutCancel(ctx))
	telling, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tell(telling, h)
	}()
	do := func(id steps.ID) steps.Step {
		return steps.Call{ID: id, Connection: "shop", Op: string(id), Args: item{"lamp"}}
	}
	workflow := steps.Sequence{ID: "order", Steps: []steps.Step{do("reserve"), do("charge"), do("ship")}}
	out, err := h.Run(ctx, workflow, nil, &harness.RunOptions{Execution: "order-42"})
	stop()
	<-done
	if err == nil {
		fmt.Printf("  done: %s\n", out)
	}
	return err
}

// tell prints what happens to steps.
func tell(ctx context.Context, h *harness.AgentHarness) {
	for ev, err := range h.Events(ctx, "") {
		if err != nil {
			return
		}
		switch ev.Type {
		case event.StepReplayed:
			fmt.Printf("  %s: recorded, not done again\n", ev.Step)
		case event.CallStarted:
			fmt.Printf("  %s: asking the shop, key %s\n", ev.Step, ev.Key)
		case event.Warning:
			if ev.Step != "" {
				fmt.Printf("  %s: %s\n", ev.Step, ev.Text)
			}
		}
	}
}
