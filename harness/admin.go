package harness

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/refs"
)

const (
	adminPage    = 100      // executions or events in an answer unless it is asked for more
	adminPageMax = 1000     // and at most
	maxAdminBody = 16 << 10 // bytes
	maxReason    = 1 << 10  // bytes of why something is done
)

// Admin answers what people who run the program want to know and decide, as the
// command bridle does. It is to be served on a unix socket that only they can
// open: one of mode 0600 in a directory of mode 0700.
//
//	GET  /status                             connections, and what runs
//	GET  /executions?limit=100&after=<id>    what the ledger has, by id
//	GET  /executions/{id}                    one, with its input and what it came to
//	GET  /executions/{id}/entries?values=all its steps and calls, a line of JSON each
//	GET  /approvals/, GET and POST /approvals/{id}
//	POST /threads/{id}/abort                 {"reason":"…"} ends the turn that runs, or gives up one that is kept
//	GET  /inbox?state=dead&trigger=<id>&thread=<id>&limit=100&after=<seq>
//	GET  /inbox/{id}                         an event, with its payload
//	POST /inbox/{id}/retry                   has a dead one delivered again
//	POST /inbox/{id}/drop                    {"reason":"…"} gives one up
//	GET  /leases                             what is left of pools that are not in the configuration
//	POST /leases/{id}/drop                   {"reason":"…"} forgets one, and ends its processes
//
// Whoever can open the socket may see all of this and decide: the file's
// permissions are the only key. So a request that did not come over a unix
// socket is refused with 403, which keeps a handler that was mounted on a TCP
// listener by mistake from doing harm, and so is one that bears the marks of a
// browser or a proxy. For decisions over a network there is gates.NewHandler.
//
// Approvals are as gates.NewHandler has them, without the token. Lists have a
// "next", for after, where there is more. The last line of entries is
// {"end":{"entries":n}}, or an error; without it they are not complete. Without
// values=all, outputs are left out of them, and arguments of over 4 KiB. Keys of
// calls are whole.
//
// Errors are {"error":"…","code":"…","hint":"…"}: 400 and 413 for what cannot be
// taken, 403, 404 for what is not there, 405, 409 for an event whose state does
// not allow it, and 500 or 503 if the store failed,
// is closed, or the request was given up. Values pass redaction once more;
// references come without their seals. Text of models and servers is only ever
// inside JSON strings, with characters that cannot be seen escaped.
//
// Aborting waits until the turn has ended or the request is given up; a run that
// the program started itself is the program's to cancel. The handler starts no
// goroutines and connects nothing; it works before Start, but for leases, and after
// Close as long as the store does.
func (h *AgentHarness) Admin() http.Handler {
	a := &admin{h: h, token: rand.Text(), mux: http.NewServeMux()}
	a.approvals = gates.NewHandler(h.approvals, a.token, nil)
	a.handle("/status", http.MethodGet, a.status)
	a.handle("/executions", http.MethodGet, a.executions)
	a.handle("/executions/{id}", http.MethodGet, a.execution)
	a.handle("/executions/{id}/entries", http.MethodGet, a.entries)
	a.handle("/threads/{id}/abort", http.MethodPost, a.abort)
	a.handle("/inbox", http.MethodGet, a.inbox)
	a.handle("/inbox/{id}", http.MethodGet, a.message)
	a.handle("/inbox/{id}/retry", http.MethodPost, a.retry)
	a.handle("/inbox/{id}/drop", http.MethodPost, a.drop)
	a.handle("/leases", http.MethodGet, a.leases)
	a.handle("/leases/{id}/drop", http.MethodPost, a.dropLease)
	a.mux.HandleFunc("/approvals", a.decisions)
	a.mux.HandleFunc("/approvals/", a.decisions)
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		a.fail(w, http.StatusNotFound, errNoPath)
	})
	return a
}

type admin struct {
	h         *AgentHarness
	token     string // lets requests that came over the socket into approvals
	approvals http.Handler
	mux       *http.ServeMux
}

var (
	errNoPath = errors.New("there is nothing at this path")
	errNoTurn = errors.New("no turn runs on this thread, and none is kept")
	errMethod = errors.New("the method is not allowed here")
)

// ServeHTTP answers one request.
func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	headers(w, "application/json")
	if !overSocket(r) {
		a.reply(w, http.StatusForbidden, adminError{Error: "the request did not come straight from a unix socket",
			Hint: "Serve Admin on a unix socket only; over a network, serve gates.NewHandler with a token."})
		return
	}
	a.mux.ServeHTTP(w, r)
}

// overSocket reports whether a request came over a unix socket, from a program
// that speaks for itself.
func overSocket(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || at.Network() != "unix" {
		return false
	}
	for _, mark := range []string{"Origin", "Sec-Fetch-Site", "Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"} {
		if r.Header.Get(mark) != "" {
			return false
		}
	}
	return true
}

// handle serves one path with one method.
func (a *admin) handle(path, method string, f http.HandlerFunc) {
	a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method || method == http.MethodGet && r.Method == http.MethodHead {
			f(w, r)
			return
		}
		w.Header().Set("Allow", method)
		a.fail(w, http.StatusMethodNotAllowed, errMethod)
	})
}

// decisions hands a request on to where approvals are decided.
func (a *admin) decisions(w http.ResponseWriter, r *http.Request) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.token)
	a.approvals.ServeHTTP(w, r)
}

func (a *admin) executions(w http.ResponseWriter, r *http.Request) {
	limit, err := pageLimit(r)
	if err != nil {
		a.refuse(w, err)
		return
	}
	page, err := a.page(r.Context(), ExecutionID(r.URL.Query().Get("after")), limit)
	if err != nil {
		a.refuse(w, err)
		return
	}
	a.reply(w, http.StatusOK, page)
}

// pageLimit is how much a request wants of a list.
func pageLimit(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return adminPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fault.New(fault.ArgsInvalid, "limit is not a positive number")
	}
	return min(n, adminPageMax), nil
}

// page reads the executions after an id.
func (a *admin) page(ctx context.Context, after ExecutionID, limit int) (*adminExecutions, error) {
	live := a.live()
	page := &adminExecutions{Executions: []adminExecution{}, Recorded: a.h.ledger != nil}
	if a.h.ledger == nil {
		return page, nil
	}
	for x, err := range a.h.ledger.ExecutionsAfter(ctx, after) {
		switch {
		case err != nil:
			return nil, err
		case len(page.Executions) == limit:
			page.Next = page.Executions[limit-1].ID
			return page, nil
		}
		page.Executions = append(page.Executions, adminExecution{x, live[x.ID]})
	}
	return page, nil
}

// live are the executions that run in this harness.
func (a *admin) live() map[ExecutionID]bool {
	live := map[ExecutionID]bool{}
	for _, id := range a.h.Status().Running {
		live[id] = true
	}
	return live
}

// find returns an execution of the ledger.
func (a *admin) find(ctx context.Context, id ExecutionID) (*adminExecution, error) {
	unknown := fault.New(fault.ExecutionUnknown, "there is no execution %s", fault.Quote(string(id)))
	if a.h.ledger == nil {
		return nil, unknown.WithHint("This harness keeps no record of executions: set Config.Store.")
	}
	x, ok, err := a.h.ledger.Execution(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, unknown.WithHint("Ended executions are kept for a limited time.")
	}
	return &adminExecution{x, a.live()[id]}, nil
}

func (a *admin) execution(w http.ResponseWriter, r *http.Request) {
	x, err := a.find(r.Context(), ExecutionID(r.PathValue("id")))
	if err != nil {
		a.refuse(w, err)
		return
	}
	out := adminResult{Execution: *x}
	out.Output, out.Failure, _, err = a.h.ledger.Result(r.Context(), x.ID)
	if err != nil {
		a.refuse(w, err)
		return
	}
	if out.Input, err = a.h.ledger.Input(r.Context(), x.ID); err != nil {
		a.refuse(w, err)
		return
	}
	out.Input, out.Output = refs.WithoutSeals(out.Input), refs.WithoutSeals(out.Output)
	a.reply(w, http.StatusOK, out)
}

// entries writes a line for each entry as it is read, so that an execution of any
// length takes little memory.
func (a *admin) entries(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query().Get("values")
	if values != "" && values != "all" && values != "none" {
		a.refuse(w, fault.New(fault.ArgsInvalid, "values is %s, want all or none", fault.Quote(values)))
		return
	}
	x, err := a.find(r.Context(), ExecutionID(r.PathValue("id")))
	if err != nil {
		a.refuse(w, err)
		return
	}
	headers(w, "application/x-ndjson")
	n := 0
	for e, err := range a.h.ledger.Entries(r.Context(), x.ID) {
		if err != nil {
			a.line(w, a.told(err))
			return
		}
		if !a.line(w, map[string]any{"entry": entryFor(e, values == "all")}) {
			return
		}
		n++
	}
	a.line(w, map[string]any{"end": map[string]int{"entries": n}})
}

// entryFor is an entry as it is shown. It changes e, which belongs to the caller.
func entryFor(e *ledger.Entry, values bool) *adminEntry {
	out := &adminEntry{Entry: e, ArgsBytes: len(e.Args), OutputBytes: len(e.Output), ItemsBytes: len(e.Items)}
	if !values {
		e.Output, e.Items = nil, nil
		if len(e.Args) > maxListedArgs {
			e.Args = nil
		}
	}
	e.Args, e.Output, e.Items = refs.WithoutSeals(e.Args), refs.WithoutSeals(e.Output), refs.WithoutSeals(e.Items)
	return out
}

func (a *admin) abort(w http.ResponseWriter, r *http.Request) {
	reason, err := postedReason(w, r)
	if err != nil {
		a.refuse(w, err)
		return
	}
	thread := ThreadID(r.PathValue("id"))
	id, runs := a.h.turnOn(thread)
	if runs {
		err = a.h.Abort(r.Context(), thread, reason)
	} else {
		id, err = a.h.abandon(r.Context(), thread, reason)
	}
	switch {
	case err != nil:
		a.refuse(w, err)
		return
	case id == "":
		a.fail(w, http.StatusNotFound, errNoTurn)
		return
	}
	a.reply(w, http.StatusOK, adminAborted{thread, id})
}

// postedReason reads why something is to be done; a body may be left out.
func postedReason(w http.ResponseWriter, r *http.Request) (string, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
	if err != nil || len(bytes.TrimSpace(raw)) == 0 {
		return "", err
	}
	invalid := fault.New(fault.ArgsInvalid, `the body is not {"reason":"…"}, of at most %d bytes`, maxReason)
	canonical, _, issue := schema.Canonical(raw, 1)
	if issue != nil {
		return "", invalid
	}
	var body struct{ Reason string }
	d := json.NewDecoder(bytes.NewReader(canonical))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil || string(canonical) == "null" || len(body.Reason) > maxReason {
		return "", invalid
	}
	return body.Reason, nil
}

// turnOn is the execution of the turn that runs on a thread.
func (h *AgentHarness) turnOn(thread ThreadID) (ExecutionID, bool) {
	h.mu.Lock()
	t := h.threads[thread]
	h.mu.Unlock()
	if t == nil {
		return "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == nil {
		return "", false
	}
	return t.turn.execution, true
}
