package harness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store"
)

// serveAdmin serves a harness to its own user only. A directory keeps others
// out while the socket has no mode of its own yet, and where sockets have none.
func serveAdmin(h *harness.AgentHarness, dir string) (server *http.Server, socket string, err error) {
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, "", err
	}
	socket = filepath.Join(dir, "bridle.sock")
	_ = os.Remove(socket) // of a process that was killed; whoever has the store open is the only one
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, "", err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, "", err
	}
	server = &http.Server{Handler: h.Admin(), ReadHeaderTimeout: 5 * time.Second}
	go server.Serve(listener)
	return server, socket, nil
}

// The command bridle looks into a harness that runs through a socket:
//
//	bridle runs -socket /run/user/1000/agent/bridle.sock
func ExampleAgentHarness_Admin() {
	ctx := context.Background() // the program's own
	db := store.Memory()        // store/bolt in a program that restarts
	defer db.Close()
	h, err := harness.New(harness.Config{Name: "clerk", Store: db, Connections: connection.Set{"shop": {Provider: shop()}}})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close(ctx)

	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, socket, err := serveAdmin(h, dir)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	pay := steps.Call{ID: "pay", Connection: "shop", Op: "pay", Args: payArgs{7}}
	if _, err := h.Run(ctx, pay, nil, &harness.RunOptions{Execution: "order-1"}); err != nil {
		log.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	res, err := client.Get("http://bridle/executions/order-1")
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	var found struct {
		Execution struct{ ID, State string }
		Output    json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&found); err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Execution.ID, found.Execution.State, string(found.Output))
	// Output:
	// order-1 done {"number":107}
}
