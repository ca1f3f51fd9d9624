package mcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

const (
	// defaultGrace is how long a server may take to end after its input was
	// closed, and again after SIGTERM.
	defaultGrace = 2 * time.Second
	// abandonGrace is the same for a server whose connection never came up:
	// there is nothing it could still have to save.
	abandonGrace = 250 * time.Millisecond
	// killWait bounds the wait for a process that SIGKILL was sent to. Only one
	// stuck inside the kernel takes longer.
	killWait = time.Second
	// exitWait is how long a server may take to end that closed its output, which
	// for the system is one and the same moment.
	exitWait = time.Second
	// drainWait is how long output is still read after the server exited, for
	// when something else holds the other end of the pipe.
	drainWait = 250 * time.Millisecond
)

// process is a server as a child process: the leader of its own process group,
// with pipes that this side owns, so that nothing a descendant keeps open can
// hold us up.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	exited  chan struct{} // closed once the leader has been reaped
	status  error         // what Wait said; readable once exited is closed
	log     *slog.Logger
	scrub   func(string) string    // takes credentials out of the server's output
	last    atomic.Pointer[string] // line of stderr that says most about an end
	said    chan struct{}          // closed once stderr has been read
	done    sync.WaitGroup         // the reaper and the reader of stderr
}

// startProcess runs cmd. The process does not depend on any context: its life
// is the connection's.
func startProcess(cmd *exec.Cmd, scrub func(string) string, log *slog.Logger) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{}), said: make(chan struct{}), scrub: scrub, log: log}
	theirs, err := p.pipes()
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	if err != nil {
		p.closePipes()
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		p.closePipes()
		return nil, err
	}
	p.started = time.Now()
	p.done.Go(p.reap)
	p.done.Go(p.logStderr)
	return p, nil
}

// pipes makes three pipes, keeps one end of each and returns the child's.
func (p *process) pipes() (theirs []*os.File, err error) {
	add := func(read, write *os.File, e error, child, ours **os.File, childReads bool) {
		if e != nil {
			err = errors.Join(err, e)
			return
		}
		*child, *ours = write, read
		if childReads {
			*child, *ours = read, write
		}
		theirs = append(theirs, *child)
	}
	var in, out, errs *os.File
	r, w, e := os.Pipe()
	add(r, w, e, &in, &p.stdin, true)
	r, w, e = os.Pipe()
	add(r, w, e, &out, &p.stdout, false)
	r, w, e = os.Pipe()
	add(r, w, e, &errs, &p.stderr, false)
	// As *os.File the command uses them as they are: no copying goroutines.
	if err == nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, errs
	}
	return theirs, err
}

func (p *process) closePipes() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// input, output and clean implement peer.
func (p *process) input() io.Writer      { return p.stdin }
func (p *process) output() io.Reader     { return newLeftover(p.stdout) }
func (p *process) clean(s string) string { return p.scrub(s) }

// track is the process as the host wants to know it.
func (p *process) track() provider.Process {
	return provider.Process{PID: p.cmd.Process.Pid, Started: p.started, Command: p.cmd.Path}
}

// reap waits for the leader. Pipes get a short time to be read empty; a
// descendant may hold them open for ever.
func (p *process) reap() {
	p.status = p.cmd.Wait()
	deadline := time.Now().Add(drainWait)
	p.stdout.SetReadDeadline(deadline)
	p.stderr.SetReadDeadline(deadline)
	close(p.exited)
}

// stop ends the process group: end of input, SIGTERM, SIGKILL, each with its
// grace, and sweeps up whatever the leader left behind. It returns an error
// that names the last rung if the process had to be killed.
func (p *process) stop(grace time.Duration) error {
	p.stdin.Close()
	name := "end of input"
	var killed error
	if !p.exitsWithin(grace) {
		p.log.Info("mcp server ignores end of input, sending SIGTERM", "pid", p.cmd.Process.Pid)
		p.signal(syscall.SIGTERM)
		if name = "end of input and SIGTERM"; !p.exitsWithin(grace) {
			killed = fault.New(fault.Closed, "server ignored %s for %v and was killed", name, 2*grace)
		}
	}
	// Also after a clean end: descendants may still be there.
	p.signal(syscall.SIGKILL)
	if !p.exitsWithin(killWait) {
		killed = fault.New(fault.Closed, "server process %d does not end even after SIGKILL", p.cmd.Process.Pid)
	}
	p.closePipes()
	if killed == nil || p.hasExited() {
		p.done.Wait()
	}
	return killed
}

func (p *process) signal(s syscall.Signal) {
	// The group outlives its leader while it has members; ESRCH means none.
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		p.log.Debug("cannot signal the mcp server's process group", "signal", s.String(), "error", err)
	}
}

func (p *process) exitsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return p.hasExited()
	}
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// ending says how the process ended, with its last words.
func (p *process) ending() error {
	if !p.exitsWithin(exitWait) {
		return errors.New("the server closed its output")
	}
	<-p.said // soon: there is a deadline by now
	how := "the server exited"
	if p.status != nil {
		how = fmt.Sprintf("the server exited with %s", strings.TrimPrefix(p.status.Error(), "exit "))
	}
	if last := p.last.Load(); last != nil && !signalled(p.status) {
		return fmt.Errorf("%s; on stderr it said %s", how, fault.Quote(*last))
	}
	return errors.New(how)
}

// signalled reports whether a signal ended the process, of which its own last
// words know nothing.
func signalled(status error) bool {
	exit, ok := errors.AsType[*exec.ExitError](status)
	if !ok {
		return false
	}
	ws, ok := exit.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled()
}

// telling reports whether a line of stderr looks like the reason of an end,
// and not like the stack or the version that runtimes print below it.
func telling(line string) bool {
	line = strings.ToLower(line)
	return strings.Contains(line, "error") || strings.Contains(line, "fatal") || strings.HasPrefix(line, "panic:")
}

const (
	stderrLine  = 4 << 10 // longest part of a line that is logged
	stderrBurst = 200     // lines logged per stderrEvery; the rest are counted
	stderrEvery = 10 * time.Second
)

// logStderr passes the server's stderr on to the log, bounded in width and
// rate so that a babbling server cannot fill a disk.
func (p *process) logStderr() {
	defer close(p.said)
	lines := bufio.NewReaderSize(newLeftover(p.stderr), stderrLine)
	var logged, dropped int
	window := time.Now()
	for {
		line, prefix, err := lines.ReadLine()
		text := p.clean(strings.ToValidUTF8(string(line), "�"))
		for prefix && err == nil {
			_, prefix, err = lines.ReadLine()
		}
		if text != "" {
			if last := p.last.Load(); last == nil || telling(text) || !telling(*last) {
				p.last.Store(&text)
			}
			if now := time.Now(); now.Sub(window) > stderrEvery {
				p.logDropped(dropped)
				window, logged, dropped = now, 0, 0
			}
			if logged++; logged <= stderrBurst {
				p.log.Info("mcp server stderr", "line", text)
			} else {
				dropped++
			}
		}
		if err != nil {
			p.logDropped(dropped)
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
				p.log.Debug("cannot read the mcp server's stderr", "error", err)
			}
			return
		}
	}
}

func (p *process) logDropped(n int) {
	if n > 0 {
		p.log.Warn("mcp server stderr: lines left out", "count", n)
	}
}
