package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// StdioOptions configure a server that runs as a child process. The zero value
// works. The options are copied; changing them later has no effect.
type StdioOptions struct {
	// Dir is the working directory, "" for that of this process.
	Dir string
	// Env are variables for the server, as "NAME=value". Values of eight and
	// more characters that are no absolute paths are redacted everywhere.
	//
	// A server does not get the environment of this process, which may hold
	// credentials that are none of its business: only PATH, HOME, USER,
	// LOGNAME, SHELL, TERM, TMPDIR, TZ, LANG and LC_*.
	Env []string
	// Inherit names further variables that the server gets from this process.
	// Those that are not set are left out.
	Inherit []string
	// MaxLine is the size in bytes of the longest message that the server may
	// send; 0 is 32 MiB. A longer one fails the call that it answers.
	MaxLine int
	// Grace is how long the server may take to end after its input was closed,
	// and again after SIGTERM; then its process group is killed. 0 is 2 s.
	Grace time.Duration
	// ProbeTimeout is how long the server may be silent about server/discover
	// before it is taken for one of the earlier era, started again and met with
	// initialize. That is remembered for later connections of this provider
	// until the server's name or version changes. 0 is 5 s.
	ProbeTimeout time.Duration
	// ConnectTimeout bounds Connect as a whole; 0 is 30 s.
	ConnectTimeout time.Duration
	// Timeout is how long any call or read may take, whatever it reports; 0 is
	// without limit. Running into it or into IdleTimeout is [fault.Timeout] and
	// [fault.OutcomeUnknown]; the server is told that nobody waits any more.
	Timeout time.Duration
	// IdleTimeout is how long a call or read may go on without an answer or a
	// report about its progress; 0 is without limit. The time that a person
	// takes to answer a question of the server counts for neither.
	IdleTimeout time.Duration
}

func (o *StdioOptions) limits() limits {
	return limits{connect: o.ConnectTimeout, call: o.Timeout, idle: o.IdleTimeout}
}

// Command returns the provider of an MCP server that runs as a child process
// and speaks over its standard input and output. It is Stdio without options.
func Command(name string, args ...string) provider.Provider {
	return Stdio(append([]string{name}, args...), nil)
}

// Stdio returns the provider of an MCP server that runs as a child process:
// the program, found in PATH, and its arguments. No shell is involved.
//
// Each Connect starts a process of its own, in a process group of its own,
// which lives as long as the connection. Release closes its input and waits,
// sends SIGTERM and waits, then kills the group; a server that had to be
// killed makes Release return an error with [fault.Closed].
func Stdio(command []string, opts *StdioOptions) provider.Provider {
	p := &stdio{command: slices.Clone(command), owner: newOwner(), habits: &habits{}}
	if opts != nil {
		p.opts = *opts
		p.opts.Env = slices.Clone(opts.Env)
		p.opts.Inherit = slices.Clone(opts.Inherit)
	}
	return p
}

type stdio struct {
	command []string
	opts    StdioOptions
	owner   string // marks the processes of this value
	habits  *habits
}

// Check implements provider.Checker.
func (p *stdio) Check() error {
	var errs []error
	if len(p.command) == 0 || p.command[0] == "" {
		errs = append(errs, invalid("the command is empty", "name a program to run"))
	}
	for i, arg := range p.command {
		if strings.ContainsRune(arg, 0) {
			errs = append(errs, invalid(fmt.Sprintf("part %d of the command holds a NUL byte", i), "remove it"))
		}
	}
	errs = append(errs, checkEnv(p.opts.Env)...)
	for _, name := range p.opts.Inherit {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			errs = append(errs, invalid("inherited variable "+fault.Quote(name)+" is no name",
				"put the name alone into Inherit, and values into Env"))
		}
	}
	if p.opts.MaxLine < 0 || p.opts.Grace < 0 || p.opts.ProbeTimeout < 0 {
		errs = append(errs, invalid("MaxLine, Grace and ProbeTimeout cannot be negative", "leave them 0 for the defaults"))
	}
	errs = append(errs, p.opts.limits().check())
	return errors.Join(errs...)
}

// remedy is what to look at when the program cannot be started.
func (p *stdio) remedy() string {
	if info, err := os.Stat(p.opts.Dir); p.opts.Dir != "" && (err != nil || !info.IsDir()) {
		return "check Dir: " + fault.Quote(p.opts.Dir) + " is no directory"
	}
	if len(p.command) == 1 && strings.ContainsAny(p.command[0], " \t") {
		return "give the program and each argument as strings of their own"
	}
	return "check that the program is installed and in PATH"
}

func checkEnv(env []string) (errs []error) {
	seen := map[string]bool{}
	for i, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		switch {
		case !ok || name == "":
			// The entry is not quoted: it may be a value that lost its name.
			errs = append(errs, invalid(fmt.Sprintf("entry %d of Env has no name", i), "write it as NAME=value"))
		case strings.ContainsRune(name, 0) || strings.ContainsRune(value, 0):
			errs = append(errs, invalid("variable "+fault.Quote(name)+" holds a NUL byte", "remove it"))
		case seen[name]:
			errs = append(errs, invalid("variable "+fault.Quote(name)+" is set twice", "keep one of the entries in Env"))
		}
		seen[name] = true
	}
	return errs
}

func invalid(text, hint string) error {
	return fault.New(fault.ConnectionInvalid, "%s", text).WithHint("%s", hint)
}

// Equal implements provider.Equaler.
func (p *stdio) Equal(other provider.Provider) bool {
	o, ok := other.(*stdio)
	return ok && slices.Equal(p.command, o.command) && p.opts.Dir == o.opts.Dir &&
		slices.Equal(p.opts.Env, o.opts.Env) && slices.Equal(p.opts.Inherit, o.opts.Inherit) &&
		p.opts.MaxLine == o.opts.MaxLine && p.opts.Grace == o.opts.Grace &&
		p.opts.ProbeTimeout == o.opts.ProbeTimeout && p.opts.limits() == o.opts.limits()
}

// Connect implements provider.Provider.
func (p *stdio) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := p.opts.limits().connecting(ctx)
	defer cancel()
	if c, err := p.connectMute(ctx, opts.Normal()); c != nil || err != nil {
		return one(c), err
	}
	c, err := p.dial(ctx, opts.Normal(), true)
	var mute *muteError
	if errors.As(err, &mute) && ctx.Err() == nil {
		opts.Normal().Logger.Debug("starting the mcp server again with initialize", "connection", opts.Normal().Name, "why", mute)
		if c, err = p.dial(ctx, opts.Normal(), false); err == nil {
			p.habits.remember(c.server())
		}
	}
	if err != nil {
		return nil, err
	}
	return one(c), nil
}

// connectMute connects to a server that is known not to stand a probe. Without
// one, or if it was replaced since, it returns nothing.
func (p *stdio) connectMute(ctx context.Context, opts *provider.ConnectOptions) (*conn, error) {
	known, ok := p.habits.mute()
	if !ok {
		return nil, nil
	}
	c, err := p.dial(ctx, opts, false)
	if err == nil && c.server() == known {
		return c, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	p.habits.remember("") // it is another one now, which may know server/discover
	if err == nil {
		c.Release(ctx) // what it says no longer matters
	}
	return nil, nil
}

// dial starts the server and connects to it, after a probe if wanted. On
// failure nothing is left.
func (p *stdio) dial(ctx context.Context, opts *provider.ConnectOptions, probe bool) (*conn, error) {
	if ctx.Err() != nil {
		return nil, fault.New(fault.Unavailable, "cannot connect: %w", context.Cause(ctx))
	}
	log := opts.Logger.With(slog.String("connection", opts.Name))
	scrub := &scrubber{redact: opts.Redact}
	for _, entry := range p.opts.Env {
		_, value, _ := strings.Cut(entry, "=")
		scrub.add(value)
	}
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Dir = p.opts.Dir
	cmd.Env = append(environment(hostEnv(), p.opts.Inherit, p.opts.Env), envOwner+"="+p.owner)
	proc, err := startProcess(cmd, scrub.text, log)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot start the server: %w", scrub.err(err)).
			WithHint("%s", p.remedy())
	}
	opts.Track(proc.track())
	lines := newLineConn(proc, newTap(newAsker(opts.Ask, log)), orDefault(p.opts.MaxLine, defaultMaxLine), log)
	d := &dialing{
		scrub: scrub, limits: p.opts.limits(), vouched: vouchers(opts.Profiles),
		reachedBy: append([]string{"stdio"}, p.command...),
	}
	patience := time.Duration(0)
	if probe {
		patience = orDefault(p.opts.ProbeTimeout, defaultProbeTimeout)
	}
	c, err := lines.open(ctx, d, patience)
	if err != nil {
		lines.Close() // a killed server is no news beside err
		return nil, err
	}
	lines.settle(orDefault(p.opts.Grace, defaultGrace))
	return c, nil
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}
