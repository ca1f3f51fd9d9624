package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"time"
)

// command is a verb with what it was given.
type command struct {
	*world
	verb *verb
	args []string

	store, socket string
	format        string
	timeout       time.Duration

	limit                 int
	before, state, thread string // of runs and events
	trigger               string // of events
	after                 uint64
	reason, by            string // of decisions
	digest, scope, form   string
	output                string
	yes                   bool
}

// verb is one thing that bridle can do.
type verb struct {
	name  string
	args  []string // names of what it must be given
	help  string
	flags func(*flag.FlagSet, *command) // beyond those of all verbs; may be nil
	run   func(context.Context, *command) error
}

// Output formats.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatID    = "id"
)

// common registers the flags of all verbs. What is set already is the default.
func (c *command) common(fs *flag.FlagSet) {
	fs.StringVar(&c.store, "store", c.store, "read the store in `file`, which no harness may have open (BRIDLE_STORE)")
	fs.StringVar(&c.socket, "socket", c.socket, "ask the harness that serves the unix socket at `path` (BRIDLE_SOCKET)")
	fs.StringVar(&c.format, "o", c.format, "output `format`: table, wide, json, jsonl or id")
	fs.BoolFunc("json", "the same as -o json", func(string) error { c.format = formatJSON; return nil })
	fs.DurationVar(&c.timeout, "timeout", c.timeout, "give up after `time`; 0 is never")
}

// parse reads the arguments of the program: flags may stand anywhere.
func parse(w *world, args []string) (*command, error) {
	c := &command{world: w, format: formatTable, timeout: 30 * time.Second, limit: 50}
	first := flag.NewFlagSet("bridle", flag.ContinueOnError)
	first.SetOutput(io.Discard)
	c.common(first)
	switch err := first.Parse(args); {
	case errors.Is(err, flag.ErrHelp), err == nil && first.NArg() == 0:
		c.verb = helpVerb()
		return c, nil
	case err != nil:
		return nil, misuse("%v", err)
	}
	name := first.Arg(0)
	all := verbs()
	i := slices.IndexFunc(all, func(v *verb) bool { return v.name == name })
	if i < 0 {
		return nil, misuse("there is no command %q", name)
	}
	c.verb = all[i]
	if err := c.rest(first.Args()[1:]); err != nil {
		return nil, err
	}
	return c, c.check()
}

// rest reads what follows the name of the verb.
func (c *command) rest(args []string) error {
	fs := flag.NewFlagSet(c.verb.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	c.common(fs)
	if c.verb.flags != nil {
		c.verb.flags(fs, c)
	}
	for {
		switch err := fs.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			c.args, c.verb = []string{c.verb.name}, helpVerb()
			return nil
		case err != nil:
			return misuse("%s: %v", c.verb.name, err)
		case fs.NArg() == 0:
			return nil
		}
		c.args, args = append(c.args, fs.Arg(0)), fs.Args()[1:]
	}
}

// check finds mistakes in what was given, and fills in the environment's.
func (c *command) check() error {
	if want := c.verb.args; want != nil && len(c.args) != len(want) {
		return misuse("%s wants %s", c.verb.name, strings.Join(orNothing(want), " "))
	}
	switch c.format {
	case formatTable, formatWide, formatJSON, formatJSONL, formatID:
	default:
		return misuse("the format %q is unknown", c.format)
	}
	if c.limit < 1 {
		return misuse("-limit must be at least 1")
	}
	if c.store != "" && c.socket != "" {
		return misuse("-store and -socket exclude each other")
	}
	if c.store == "" && c.socket == "" {
		if c.socket = c.env("BRIDLE_SOCKET"); c.socket == "" {
			c.store = c.env("BRIDLE_STORE")
		}
	}
	return nil
}

func orNothing(names []string) []string {
	if len(names) == 0 {
		return []string{"no arguments"}
	}
	return names
}

// wantsJSON looks for the wish for JSON in arguments that may be unsound: errors
// come as JSON then, those about the arguments too.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-"):
		case name == "json":
			return true
		case name == "o" && !given && i+1 < len(args):
			value = args[i+1]
			fallthrough
		case name == "o":
			if value == formatJSON || value == formatJSONL {
				return true
			}
		}
	}
	return false
}
