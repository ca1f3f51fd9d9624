// Command bridle looks into what a harness records, and decides what one that
// runs waits for.
//
//	bridle runs -store agent.db
//	bridle show exe-7f3a -socket /run/user/1000/agent/bridle.sock
//
// It reads a store file that no harness has open, or talks to a harness that
// serves harness.AgentHarness.Admin on a unix socket. docs/operating.md describes
// its output; bridle help lists the rest.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"time"
)

// world is what a command has around it.
type world struct {
	env      func(string) string
	in       io.Reader
	out, err io.Writer
	inTTY    bool // a person types
	outTTY   bool // and reads
	errTTY   bool
	now      func() time.Time
	who      string // who decides, unless told otherwise
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	w := &world{env: os.Getenv, in: os.Stdin, out: os.Stdout, err: os.Stderr, now: time.Now, who: "bridle",
		inTTY: terminal(os.Stdin), outTTY: terminal(os.Stdout), errTTY: terminal(os.Stderr)}
	if u, err := user.Current(); err == nil && u.Username != "" {
		w.who = u.Username
	}
	code := run(ctx, w, os.Args[1:])
	stop()
	os.Exit(code)
}

// terminal reports whether a file is a character device, as terminals are.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// run runs one command and returns its exit code.
func run(ctx context.Context, w *world, args []string) int {
	c, err := parse(w, args)
	if err == nil {
		if c.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.timeout)
			defer cancel()
		}
		err = c.verb.run(ctx, c)
	}
	if err == nil {
		return exitDone
	}
	return report(ctx, w, wantsJSON(args), err)
}
