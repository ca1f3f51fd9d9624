// Command bench measures the figures that this repository promises and ends
// with a table of them, one line a figure: name, value, unit, target, verdict.
//
//	go run ./bench [-only pattern] [-json file]
//
// README.md beside this file says what each figure means. The program exits
// with 1 if a figure could not be measured, and with 0 if one falls short.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/bridle-dev/bridle/internal/glob"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == serverArg {
		serveStdio()
		return
	}
	only := flag.String("only", "", "measure the figures whose names begin with this or fit it as a `pattern` with *")
	file := flag.String("json", "", "also write the results to this `file`")
	flag.Parse()
	// The root of everything: it ends with the program or an interrupt.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *file); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, file string) error {
	chosen := choose(figures(), only)
	if len(chosen) == 0 {
		return fmt.Errorf("no figure is named like %q", only)
	}
	results, broken := measureAll(ctx, chosen, fullPlan(), os.Stderr)
	if err := writeTable(os.Stdout, results); err != nil {
		return err
	}
	if file != "" {
		if err := writeJSON(file, results); err != nil {
			return err
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d figures could not be measured", broken, len(chosen))
	}
	return nil
}

// choose returns the figures whose names begin with only or fit it.
func choose(all []figure, only string) []figure {
	var chosen []figure
	for _, f := range all {
		if strings.HasPrefix(f.name, only) || glob.Match(only, f.name) {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// measureAll measures one figure after the other, and says on log how far it
// is. One that breaks does not keep the others from being measured.
func measureAll(ctx context.Context, chosen []figure, p plan, log io.Writer) (results []result, broken int) {
	for i, f := range chosen {
		fmt.Fprintf(log, "%d/%d %s: %s\n", i+1, len(chosen), f.name, f.about)
		found, err := measure(ctx, f, p)
		if err != nil {
			fmt.Fprintf(log, "%s: %v\n", f.name, err)
			broken++
		}
		results = append(results, judge(f, found, err)...)
	}
	return results, broken
}
