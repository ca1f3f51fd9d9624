package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
)

// The pools: booths live at the peer and outlive the child that leased them;
// rooms are processes that it starts, and end with it or are found by the next.
const (
	booths = "booths"
	rooms  = "rooms"
)

// thingManifest is what private things offer.
func thingManifest(d provider.Determinism) *provider.Manifest {
	m := &provider.Manifest{Determinism: d}
	for _, o := range manifest().Operations {
		if o.Name == opOnce || o.Name == opPut {
			m.Operations = append(m.Operations, o)
		}
	}
	m.Operations = append(m.Operations, provider.Operation{Name: opRoom, Args: json.RawMessage(`{"type":"object"}`),
		Facts: provider.Facts{Effects: true, Idempotent: true}})
	return m
}

// yard makes booths.
type yard struct{ client *client }

// booth is one of them.
type booth struct {
	client
	id string
}

func (y *yard) booth(id string) *booth {
	return &booth{client{address: y.client.address, fuse: y.client.fuse, thing: id, done: make(chan struct{})}, id}
}

func (b *booth) Manifest() *provider.Manifest { return thingManifest("") }
func (b *booth) Identity() provider.Identity {
	return provider.Identity{Surface: "booth", Instance: b.id}
}

func (b *booth) Release(ctx context.Context) error {
	_, err := b.exchange(ctx, request{Method: "release", Thing: b.id})
	b.once.Do(func() { close(b.done) })
	return err
}

// Detach implements provider.Detacher: the peer keeps what nobody is connected to.
func (b *booth) Detach(context.Context) error {
	b.once.Do(func() { close(b.done) })
	return nil
}

func (y *yard) Connect(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
	return nil, fault.New(fault.Unavailable, "only the pool makes booths")
}

// Provision implements provider.Provisioner.
func (y *yard) Provision(ctx context.Context, req *provider.ProvisionRequest, _ *provider.ConnectOptions) (provider.Conn, error) {
	got, err := y.client.exchange(ctx, request{Method: "provision", Args: req.Setup})
	if err != nil {
		return nil, err
	}
	return y.booth(got.Thing), nil
}

// Reattach implements provider.Reattacher.
func (y *yard) Reattach(ctx context.Context, state json.RawMessage, _ *provider.ConnectOptions) (provider.Conn, error) {
	var was provider.Identity
	if err := json.Unmarshal(state, &was); err != nil {
		return nil, provider.NotSent(err)
	}
	_, err := y.client.exchange(ctx, request{Method: "reattach", Thing: was.Instance})
	if errors.Is(err, fault.OpFailed) {
		err = provider.NotSent(err) // it is gone
	}
	if err != nil {
		return nil, err
	}
	return y.booth(was.Instance), nil
}

// shed makes rooms.
type shed struct {
	client *client
	dir    string
}

// room is a process that does nothing but be there; what is done in it is done at
// the peer.
type room struct {
	client
	cmd *exec.Cmd
}

const roomVariable = "BRIDLE_CRASH_ROOM"

func (s *shed) Connect(context.Context, *provider.ConnectOptions) ([]provider.Conn, error) {
	return nil, fault.New(fault.Unavailable, "only the pool makes rooms")
}

// Provision implements provider.Provisioner.
func (s *shed) Provision(_ context.Context, _ *provider.ProvisionRequest, opts *provider.ConnectOptions) (provider.Conn, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, provider.NotSent(err)
	}
	s.client.fuse.burn("before a room")
	cmd := exec.Command(self) // it must outlive a caller who is killed, and end only when it is ended
	cmd.Env = append(os.Environ(), roomVariable+"="+s.dir, "BRIDLE_OWNER=crash:"+strconv.Itoa(os.Getpid()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, provider.NotSent(err)
	}
	s.client.fuse.burn("after a room")
	opts.Track(provider.Process{PID: cmd.Process.Pid, Started: time.Now(), Command: self})
	return &room{client{address: s.client.address, fuse: s.client.fuse, done: make(chan struct{})}, cmd}, nil
}

func (r *room) Manifest() *provider.Manifest { return thingManifest(provider.Pure) }
func (r *room) Identity() provider.Identity {
	return provider.Identity{Surface: "room", Instance: fmt.Sprint("process ", r.cmd.Process.Pid)}
}

func (r *room) Release(context.Context) error {
	var err error
	r.once.Do(func() {
		err = r.cmd.Process.Kill()
		_ = r.cmd.Wait() // it was killed
		close(r.done)
	})
	return err
}

// isRoom waits to be ended if this process is a room.
func isRoom() bool {
	_, ok := os.LookupEnv(roomVariable)
	if ok {
		<-time.After(5 * time.Minute) // a bound, should nobody find it
	}
	return ok
}

// provision, release and reattach are the peer's side of booths.
func (p *peer) provision() reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	id := fmt.Sprint("booth ", p.made)
	p.things[id] = 0
	return reply{Thing: id}
}

func (p *peer) release(id string) reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.things, id)
	return reply{}
}

func (p *peer) reattach(id string) reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.things[id]; !there {
		return reply{Refused: "it is gone"}
	}
	return reply{}
}

// use notes that something is done with a thing; the caller holds mu.
func (p *peer) use(req request) {
	if req.Thing == "" {
		return
	}
	if _, there := p.things[req.Thing]; !there {
		p.wrong = append(p.wrong, fmt.Sprintf("%s was used after it was released", req.Thing))
		return
	}
	p.things[req.Thing]++
}

// checkThings looks whether anything that was leased is left. What was made for a
// process that was killed before it knew is nobody's, and was never used.
func (t *trial) checkThings() {
	t.Helper()
	t.peer.mu.Lock()
	nobodys := 0
	waiting := t.result.Unknown && t.kind == directly // it may be resumed, and finds its things
	for id, uses := range t.peer.things {
		if nobodys++; uses > 0 && !waiting {
			t.Errorf("%s was used %d times and never released; killed %v", id, uses, t.where)
		}
	}
	t.peer.mu.Unlock()
	if nobodys > t.kills && !waiting {
		t.Errorf("%d booths are left after %d kills", nobodys, t.kills)
	}
	for _, pid := range roomsOf(t.dir) {
		t.Errorf("process %d is left; killed %v", pid, t.where)
	}
	t.opened(func(db store.Store) {
		err := db.View(t.Context(), func(tx store.Tx) error {
			for rec, err := range tx.Scan("pool/leases", store.Range{}) {
				if err != nil {
					return err
				}
				if waiting && bytes.Contains(rec.Value, []byte(`"kept":true`)) {
					continue
				}
				t.Errorf("a lease is left: %s; killed %v", rec.Value, t.where)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// roomsOf are the processes that are rooms of a trial.
func roomsOf(dir string) (pids []int) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil // no way to look
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && strings.Contains("\x00"+string(environ), "\x00"+roomVariable+"="+dir+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}
