package triggercrash_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
	"github.com/bridle-dev/bridle/triggers"
)

// Sizes, in events.
const (
	usual = 500
	long  = 5_000
	lines = 25 // threads
)

const (
	// life is how long a child works before it is killed, and shortLife the same with
	// few events, which would see few kills.
	life      = 300 * time.Millisecond
	shortLife = 150 * time.Millisecond
	// youth is within what a child is killed that does not live to serve.
	youth = 60 * time.Millisecond
	// youngDeaths is how many children of which one dies before it serves.
	youngDeaths = 5
)

func size(t *testing.T) int {
	if text := os.Getenv("BRIDLE_CRASH_EVENTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("BRIDLE_CRASH_EVENTS: %v", err)
		}
		return n
	}
	switch {
	case testing.Short():
		return usual / 5
	case os.Getenv("BRIDLE_LONG") != "":
		return long
	}
	return usual
}

// loop is a harness that is killed and started again.
type loop struct {
	*testing.T
	desk     *desk
	listener *os.File // on which all children listen
	orders   orders
	life     time.Duration
	kills    int
}

// TestEveryAcceptedEventHasOneExecution posts signed webhooks to a process that is
// killed, as a rule every 300 ms, and started again.
func TestEveryAcceptedEventHasOneExecution(t *testing.T) {
	events := size(t)
	each := events / lines
	l, url := newLoop(t)
	if l.life = life; events <= usual {
		l.life = shortLife
	}
	s, err := newSender(url)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { sent <- s.send(ctx, lines, each) }()
	var failed error
	for over := false; !over; {
		select {
		case failed = <-sent:
			over = true
		default:
			l.cut()
		}
	}
	cancel()
	if failed != nil {
		t.Fatal(failed)
	}
	for i := 0; i < 3 && l.desk.done() < each*lines; i++ { // what was accepted is worked off under fire, too
		l.cut()
	}
	l.finish()
	l.desk.check(t, lines, each)
	l.check(each)
	t.Logf("%d events in %d threads, posted %d times and refused %d times; %d kills", each*lines, lines, s.posts.Load(), s.refused.Load(), l.kills)
}

func newLoop(t *testing.T) (*loop, string) {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := at.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = file.Close(), at.Close() })
	d := newDesk(t)
	return &loop{T: t, desk: d, listener: file, orders: orders{Server: d.url, Store: filepath.Join(t.TempDir(), "store.db")}}, "http://" + at.Addr().String()
}

// child is one process.
type child struct {
	cmd   *exec.Cmd
	in    io.Closer
	up    chan struct{} // closed when it serves
	ended chan struct{} // closed when it said its last word
	said  bytes.Buffer  // valid once ended is closed
}

func (l *loop) start() *child {
	l.Helper()
	self, err := os.Executable()
	if err != nil {
		l.Fatal(err)
	}
	raw, err := json.Marshal(l.orders)
	if err != nil {
		l.Fatal(err)
	}
	c := &child{cmd: exec.CommandContext(l.Context(), self), up: make(chan struct{}), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), ordersVariable+"="+string(raw))
	c.cmd.ExtraFiles = []*os.File{l.listener}
	c.cmd.Stderr = &c.said
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		l.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		l.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		l.Fatal(err)
	}
	go c.listen(out)
	return c
}

// listen reads what a child says.
func (c *child) listen(out io.Reader) {
	defer close(c.ended)
	var words []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == serving {
			close(c.up)
			continue
		}
		words = append(words, lines.Text())
	}
	_ = c.cmd.Wait()
	c.said.WriteString(strings.Join(words, "\n"))
}

// cut has a child work for its life and kills it. Some die before they serve.
func (l *loop) cut() {
	l.Helper()
	c := l.start()
	defer func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		l.kills++
		if c.said.Len() > 0 {
			l.Errorf("child %d said: %s", l.kills, c.said.String())
		}
	}()
	if l.kills%youngDeaths == youngDeaths-1 {
		l.wait(c, time.Duration(rand.Int64N(int64(youth))))
		return
	}
	l.serves(c)
	l.wait(c, l.life)
}

// serves waits until a child serves.
func (l *loop) serves(c *child) {
	l.Helper()
	select {
	case <-c.up:
	case <-c.ended:
		l.Fatalf("a child ended before it served: %s", c.said.String())
	}
}

func (l *loop) wait(c *child, d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.ended:
	}
}

// finish has a last child work until nothing is left.
func (l *loop) finish() {
	l.Helper()
	c := l.start()
	l.serves(c)
	_ = c.in.Close()
	<-c.ended
	if c.said.Len() > 0 || c.cmd.ProcessState.ExitCode() != 0 {
		l.Fatalf("the last child ended with %v: %s", c.cmd.ProcessState, c.said.String())
	}
}

// check looks whether each event has one execution, which is done.
func (l *loop) check(each int) {
	l.Helper()
	db, err := bolt.Open(l.orders.Store, nil)
	if err != nil {
		l.Fatal(err)
	}
	defer db.Close()
	book, err := ledger.Open(l.Context(), db)
	if err != nil {
		l.Fatal(err)
	}
	states := map[provider.ExecutionID]ledger.State{}
	for x, err := range book.Executions(l.Context()) {
		if err != nil {
			l.Fatal(err)
		}
		states[x.ID] = x.State
	}
	inbox := l.inbox(db)
	seen := map[provider.ExecutionID]string{}
	for m, err := range inbox.List(l.Context(), triggers.InboxFilter{}) {
		switch {
		case err != nil:
			l.Fatal(err)
		case m.State != triggers.Done:
			l.Errorf("%s is %s: %v", m.ID, m.State, m.Err)
		case states[m.Execution] != ledger.Done:
			l.Errorf("%s is done, and its execution %q", m.ID, states[m.Execution])
		case seen[m.Execution] != "":
			l.Errorf("%s and %s share an execution", m.ID, seen[m.Execution])
		}
		seen[m.Execution] = m.ID
	}
	for i := range lines {
		for n := range each {
			id := fmt.Sprintf("orders:fulfil:%s", eventID(order{lineName(i), n}))
			if _, err := inbox.Message(l.Context(), id); err != nil {
				l.Errorf("%s is missing: %v", id, err)
			}
		}
	}
	if want := each * lines; len(seen) != want || len(states) != want {
		l.Errorf("%d events with %d executions, want %d", len(seen), len(states), want)
	}
}

// inbox opens the inbox to be read.
func (l *loop) inbox(db store.Store) *triggers.Inbox {
	l.Helper()
	nothing := func(context.Context, *triggers.Trigger, triggers.Cursor) (provider.Subscription, error) {
		return nil, context.Canceled
	}
	inbox, err := triggers.OpenInbox(l.Context(), triggers.InboxConfig{Store: db, Listen: nothing,
		Deliver: func(context.Context, *triggers.Delivery) error { return context.Canceled }})
	if err != nil {
		l.Fatal(err)
	}
	return inbox
}
