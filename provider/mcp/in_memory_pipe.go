package mcp

import (
	"io"
	"sync"
)

// pipeRoom is how many bytes may wait in a pipe before writing blocks.
const pipeRoom = 64 << 10

// pipe carries bytes from one goroutine to another. Unlike io.Pipe it holds
// some, as a pipe of the system does: a writer need not wait for the reader.
type pipe struct {
	mu     sync.Mutex
	data   *sync.Cond // there is data, or the end
	room   *sync.Cond // there is room, or the end
	buf    []byte
	read   int // how much of buf has been read
	closed bool
}

func newPipe() *pipe {
	p := &pipe{}
	p.data, p.room = sync.NewCond(&p.mu), sync.NewCond(&p.mu)
	return p
}

// Read implements io.Reader. After Close it returns what is left, then io.EOF.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.read == len(p.buf) {
		if p.closed {
			return 0, io.EOF
		}
		p.data.Wait()
	}
	n := copy(b, p.buf[p.read:])
	p.read += n
	if p.read == len(p.buf) {
		p.buf, p.read = p.buf[:0], 0
		if cap(p.buf) > 2*pipeRoom {
			p.buf = nil // one long message is no reason to keep its memory
		}
	}
	p.room.Signal()
	return n, nil
}

// Write implements io.Writer. It writes all or, after Close, nothing.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.buf)-p.read >= pipeRoom && !p.closed {
		p.room.Wait()
	}
	if p.closed {
		return 0, io.ErrClosedPipe
	}
	if p.read > 0 && len(p.buf)+len(b) > cap(p.buf) {
		p.buf, p.read = append(p.buf[:0], p.buf[p.read:]...), 0
	}
	p.buf = append(p.buf, b...)
	p.data.Signal()
	return len(b), nil
}

// Close implements io.Closer, for either end.
func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.data.Broadcast()
	p.room.Broadcast()
	return nil
}
