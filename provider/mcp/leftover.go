package mcp

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// maxLeftover is how much is read from a pipe after its deadline: what a pipe
// holds. Without a bound a descendant that goes on writing would never let go.
const maxLeftover = 64 << 10

// leftover reads a pipe whose deadline says that nothing more has to be waited
// for. What is in the pipe by then is read all the same, however late this
// process gets to it: a read after its deadline would not even look.
type leftover struct {
	f    *os.File
	left int
}

func newLeftover(f *os.File) *leftover { return &leftover{f: f, left: maxLeftover} }

// Read implements io.Reader.
func (l *leftover) Read(b []byte) (int, error) {
	n, err := l.f.Read(b)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || l.left == 0 {
		return n, err
	}
	n, ended := l.poll(b[:min(len(b), l.left)])
	l.left -= n
	switch {
	case n > 0:
		return n, nil
	case ended:
		return 0, io.EOF
	}
	return 0, err
}

// poll reads what is there. It reports the end of the pipe, which reading
// without waiting tells from an empty one.
func (l *leftover) poll(b []byte) (n int, ended bool) {
	conn, err := l.f.SyscallConn()
	if err != nil {
		return 0, false
	}
	// Control does not look at the deadline, as its Read would.
	err = conn.Control(func(fd uintptr) { n, _ = syscall.Read(int(fd), b) })
	if err != nil || n < 0 {
		return 0, false
	}
	return n, n == 0
}
