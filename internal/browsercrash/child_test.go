package browsercrash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/steps"
	"github.com/bridle-dev/bridle/store/bolt"
)

const (
	web       = "web"
	execution = "exe-form"

	ordersVariable = "BRIDLE_BROWSER_CHILD"
)

// orders tell a child what to do, in its environment.
type orders struct {
	Server   []string `json:"server"` // the Playwright server
	Chromium chromium `json:"chromium"`
	Browser  string   `json:"browser"` // address of one that runs; "" starts one
	Dir      string   `json:"dir"`     // for the store, and for what the server writes
	URL      string   `json:"url"`     // of the form
	Hold     bool     `json:"hold"`    // wait to be killed once the form is filled in
	Resume   bool     `json:"resume"`
	Rerun    bool     `json:"rerun"`
}

// said is one line that a child prints.
type said struct {
	Filled bool       `json:"filled,omitempty"` // the form is, and nothing is submitted
	Ended  bool       `json:"ended,omitempty"`
	Out    string     `json:"out,omitempty"` // the page as it is read in the end
	Err    string     `json:"err,omitempty"`
	Code   fault.Code `json:"code,omitempty"`
}

func say(s said) {
	raw, _ := json.Marshal(s)
	fmt.Println(string(raw))
}

// isChild runs the child if this process is one.
func isChild() bool {
	raw, ok := os.LookupEnv(ordersVariable)
	if !ok {
		return false
	}
	var o orders
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := o.run(ctx)
	s := said{Ended: true, Out: out, Code: fault.CodeOf(err)}
	if err != nil {
		s.Err = err.Error()
	}
	say(s)
	return true
}

func (o *orders) run(ctx context.Context) (out string, err error) {
	db, err := bolt.Open(filepath.Join(o.Dir, "store.db"), nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	h, err := harness.New(harness.Config{Name: "browser", Store: db, Connections: connection.Set{web: {
		Provider: &browser{server: o.Server, dir: o.Dir, chromium: o.Chromium, address: o.Browser}, Required: true}}})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()
	if !o.Resume {
		return harness.Run(ctx, h, o.form(), nil, &steps.RunOptions{Execution: execution})
	}
	var opts harness.RestoreOptions
	if o.Rerun {
		opts.Rerun = []connection.Name{web}
	}
	r, err := h.Restore(ctx, execution, &opts)
	if err != nil {
		return "", err
	}
	return harness.Resume(ctx, r, o.form())
}

// form fills in the form, submits it, and reads what the page says then.
func (o *orders) form() steps.Typed[string] {
	do := func(id steps.ID, op string, args map[string]any) steps.Call {
		return steps.Call{ID: id, Connection: web, Op: op, Args: args}
	}
	return steps.As[string](steps.Sequence{ID: "form", Steps: []steps.Step{
		do("open", "browser_navigate", map[string]any{"url": o.URL}),
		do("fill", "browser_type", map[string]any{"element": "Name", "target": "input[name=name]", "text": "Dora"}),
		steps.Func("filled", func(c steps.Context, _ json.RawMessage) (steps.None, error) {
			if o.Hold {
				say(said{Filled: true})
				<-c.Done()
			}
			return steps.None{}, c.Err()
		}),
		do("submit", "browser_click", map[string]any{"element": "Sign in", "target": "button"}),
		do("read", "browser_snapshot", nil),
	}})
}
