//go:build linux && (amd64 || arm64)

package bolt_test

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// disk stands between this process and the kernel: every system call that
// changes a file waits until it has decided what becomes of it. bbolt takes no
// other seam, and needs none with this. It uses seccomp(2) with notifications,
// which cannot be taken back, so it belongs into a child process.
type disk struct {
	listener int
	memory   *os.File // of this process

	mu    sync.Mutex
	calls []call                   // guarded by mu; since begin
	plan  func(n int, c call) fate // guarded by mu; n counts from 0
}

// call is a system call that changes a file.
type call struct {
	nr     int32
	fd     int
	file   string
	data   []byte // of a write
	offset int64  // of a write
	failed bool
}

func (c call) String() string {
	switch c.nr {
	case syscall.SYS_PWRITE64:
		return fmt.Sprintf("write of %d bytes at %d", len(c.data), c.offset)
	case syscall.SYS_FTRUNCATE:
		return "truncate"
	}
	return "sync"
}

func (c call) write() bool { return c.nr == syscall.SYS_PWRITE64 }
func (c call) sync() bool  { return c.nr == syscall.SYS_FDATASYNC || c.nr == syscall.SYS_FSYNC }

// fate is what becomes of a call. The zero fate lets it happen.
type fate struct {
	fails syscall.Errno
	half  bool // writes the first half and says so
}

// The parts of linux/seccomp.h, linux/filter.h and linux/prctl.h that are used.
const (
	prSetNoNewPrivs = 38
	seccompFilter   = 1
	seccompFlags    = 1<<0 | 1<<3 | 1<<4 // TSYNC, NEW_LISTENER, TSYNC_ESRCH
	retNotify       = 0x7fc00000
	retAllow        = 0x7fff0000
	ioctlReceive    = 0xc0502100
	ioctlSend       = 0xc0182101
	flagContinue    = 1
)

type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type response struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// newDisk puts a disk below this process, for good.
func newDisk() (*disk, error) {
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		return nil, err
	}
	listener, err := filterCalls(syscall.SYS_PWRITE64, syscall.SYS_FDATASYNC, syscall.SYS_FSYNC, syscall.SYS_FTRUNCATE)
	if err != nil {
		return nil, err
	}
	d := &disk{listener: listener, memory: memory}
	go d.serve()
	return d, nil
}

func filterCalls(numbers ...uint32) (listener int, err error) {
	const load, jumpIfEqual, ret = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS, syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, syscall.BPF_RET | syscall.BPF_K
	program := []syscall.SockFilter{{Code: load}}
	for i, nr := range numbers {
		program = append(program, syscall.SockFilter{Code: jumpIfEqual, Jt: uint8(len(numbers) - i), K: nr})
	}
	program = append(program, syscall.SockFilter{Code: ret, K: retAllow}, syscall.SockFilter{Code: ret, K: retNotify})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return 0, errno
	}
	of := syscall.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := syscall.RawSyscall(seccompNumber(), seccompFilter, seccompFlags, uintptr(unsafe.Pointer(&of)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}

func seccompNumber() uintptr {
	if runtime.GOARCH == "arm64" {
		return 277
	}
	return 317
}

// serve decides calls until the process ends.
func (d *disk) serve() {
	for {
		var n notification
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(d.listener), ioctlReceive, uintptr(unsafe.Pointer(&n))); errno != 0 {
			continue // the thread has gone away
		}
		r := d.decide(&n)
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, uintptr(d.listener), ioctlSend, uintptr(unsafe.Pointer(&r)))
	}
}

func (d *disk) decide(n *notification) response {
	c := call{nr: n.nr, fd: int(n.args[0])}
	c.file, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", c.fd))
	if c.write() {
		c.data, c.offset = make([]byte, n.args[2]), int64(n.args[3])
		if _, err := d.memory.ReadAt(c.data, int64(n.args[1])); err != nil {
			panic(err)
		}
	}
	f := d.note(c)
	switch {
	case f.fails != 0:
		return response{id: n.id, errno: -int32(f.fails)}
	case f.half && c.write():
		return response{id: n.id, val: writeHalf(c)}
	}
	return response{id: n.id, flags: flagContinue}
}

func (d *disk) note(c call) fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	var f fate
	if d.plan != nil {
		f = d.plan(len(d.calls), c)
	}
	c.failed = f.fails != 0
	d.calls = append(d.calls, c)
	return f
}

// writeHalf writes with a call that the disk does not see.
func writeHalf(c call) int64 {
	half := c.data[:len(c.data)/2]
	of := syscall.Iovec{Base: &half[0], Len: uint64(len(half))}
	n, _, errno := syscall.Syscall6(syscall.SYS_PWRITEV, uintptr(c.fd), uintptr(unsafe.Pointer(&of)), 1, uintptr(c.offset), 0, 0)
	if errno != 0 {
		panic(errno)
	}
	return int64(n)
}

// begin forgets what was and follows a plan from now on. Nil is none.
func (d *disk) begin(plan func(n int, c call) fate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls, d.plan = nil, plan
}

// seen returns the calls since begin.
func (d *disk) seen() []call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]call(nil), d.calls...)
}
