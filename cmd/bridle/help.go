package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"text/tabwriter"
)

func verbs() []*verb {
	decision := func(fs *flag.FlagSet, c *command) {
		fs.StringVar(&c.reason, "reason", "", "`text` for the record; the model is told why it was denied")
		fs.StringVar(&c.by, "by", c.who, "`name` of who decides, for the record")
	}
	return []*verb{
		{"runs", []string{}, "list executions, newest first", func(fs *flag.FlagSet, c *command) {
			fs.IntVar(&c.limit, "limit", c.limit, "show at most `n`")
			fs.StringVar(&c.before, "before", "", "go on after the execution with this `id`")
			fs.StringVar(&c.state, "state", "", "only these, separated by commas: `states` of running, cut, done, failed, cancelled")
			fs.StringVar(&c.thread, "thread", "", "only those of the thread with this `id`")
		}, runRuns},
		{"show", []string{"<execution>"}, "show the timeline of one: steps and calls, and what is not known", nil, runShow},
		{"export", []string{"<execution>"}, "write all that is recorded of one as JSON, without keys and seals", nil, runExport},
		{"approvals", []string{}, "list what waits for an approval", func(fs *flag.FlagSet, c *command) {
			fs.IntVar(&c.limit, "limit", c.limit, "show at most `n`")
		}, runApprovals},
		{"approve", []string{"<approval>"}, "allow a call that waits, after showing it (socket)", func(fs *flag.FlagSet, c *command) {
			decision(fs, c)
			fs.StringVar(&c.digest, "digest", "", "allow without asking if its digest begins with `hex`")
			fs.BoolVar(&c.yes, "yes", false, "allow without asking")
			fs.StringVar(&c.scope, "scope", "call", "how far it goes, `call` or execution: this call, or its operation until the execution ends")
			fs.StringVar(&c.form, "form", "", "the answer to a question, as `JSON`")
		}, runApprove},
		{"deny", []string{"<approval>"}, "refuse a call that waits (socket)", decision, runDeny},
		{"happened", []string{"<approval>"}, "answer a doubt: the call was made, and is not to be made again (socket)", func(fs *flag.FlagSet, c *command) {
			decision(fs, c)
			fs.StringVar(&c.output, "output", "", "what it came to, as `JSON`; null if not given")
		}, runHappened},
		{"abort", []string{"<thread>"}, "end the turn that runs on a thread, or give up one that is kept (socket)", func(fs *flag.FlagSet, c *command) {
			fs.StringVar(&c.reason, "reason", "", "`text` for the record")
		}, runAbort},
		inboxVerb(),
		leasesVerb(),
		{"version", []string{}, "print the version of this program", nil, runVersion},
		helpVerb(),
	}
}

func helpVerb() *verb {
	return &verb{name: "help", help: "describe a command, or the topics exit-codes and environment", run: runHelp}
}

const exitCodes = `0    done
1    failed
2    the command line is wrong
3    there is no such execution, approval, turn, event or lease
4    the store or the socket cannot be reached, is held by another, or does not allow it
5    refused: decided before, run out, another digest, or nobody said yes
6    -timeout passed
130  interrupted
`

const environment = `BRIDLE_SOCKET   the socket, unless -socket or -store is given
BRIDLE_STORE    the store, unless BRIDLE_SOCKET, -socket or -store is given
NO_COLOR        not empty: no colour
CLICOLOR_FORCE  not empty: colour without a terminal, too
TERM            dumb: no colour
`

func runHelp(_ context.Context, c *command) error {
	topic := strings.Join(c.args, " ")
	switch topic {
	case "":
		return overview(c.out)
	case "exit-codes":
		_, err := io.WriteString(c.out, exitCodes)
		return err
	case "environment":
		_, err := io.WriteString(c.out, environment)
		return err
	}
	for _, v := range verbs() {
		if v.name == topic {
			return describe(c.out, v)
		}
	}
	return misuse("there is no help about %q", topic)
}

func overview(w io.Writer) error {
	fmt.Fprint(w, "bridle looks into what a harness records, and decides what one that runs waits for.\n\n")
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, v := range verbs() {
		fmt.Fprintf(t, "  bridle %s\t%s\n", strings.Join(append([]string{v.name}, v.args...), " "), v.help)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "\nIds may be shortened. Flags of all commands, before or after it:\n")
	return flags(w, (&command{format: formatTable}).common)
}

func describe(w io.Writer, v *verb) error {
	fmt.Fprintf(w, "bridle %s: %s\n\n", strings.Join(append([]string{v.name}, v.args...), " "), v.help)
	return flags(w, func(fs *flag.FlagSet) {
		c := &command{world: &world{}, format: formatTable, limit: 50}
		c.common(fs)
		if v.flags != nil {
			v.flags(fs, c)
		}
	})
}

func flags(w io.Writer, register func(*flag.FlagSet)) error {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	register(fs)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fs.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		if f.Name == "json" {
			value = ""
		}
		fmt.Fprintf(t, "  -%s\t%s\n", strings.TrimSpace(f.Name+" "+value), usage)
	})
	return t.Flush()
}

func runVersion(_ context.Context, c *command) error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	_, err := fmt.Fprintln(c.out, "bridle "+version)
	return err
}
