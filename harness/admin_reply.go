package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
)

// maxListedArgs is how many bytes of arguments stand in a list.
const maxListedArgs = 4 << 10

type adminExecution struct {
	*ledger.Execution
	Live bool `json:"live"` // it runs in this harness
}

type adminExecutions struct {
	Executions []adminExecution `json:"executions"`
	Next       ExecutionID      `json:"next,omitempty"`
	Recorded   bool             `json:"recorded"` // the harness keeps a ledger
}

type adminResult struct {
	Execution adminExecution  `json:"execution"`
	Input     json.RawMessage `json:"input,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Failure   *fault.Error    `json:"failure,omitempty"`
}

type adminEntry struct {
	*ledger.Entry
	ArgsBytes   int `json:"argsBytes,omitempty"` // of what was left out, too
	OutputBytes int `json:"outputBytes,omitempty"`
	ItemsBytes  int `json:"itemsBytes,omitempty"`
}

type adminAborted struct {
	Thread    ThreadID    `json:"thread"`
	Execution ExecutionID `json:"execution"`
}

type adminError struct {
	Error string     `json:"error"`
	Code  fault.Code `json:"code,omitempty"`
	Hint  string     `json:"hint,omitempty"`
}

type adminStatus struct {
	Name        string            `json:"name"`
	Recorded    bool              `json:"recorded"`
	Connections []adminConnection `json:"connections"`
	Running     []ExecutionID     `json:"running"`
	Threads     int               `json:"threads"`
	Triggers    []adminTrigger    `json:"triggers,omitempty"`
}

type adminConnection struct {
	Name     connection.Name        `json:"name"`
	State    connection.State       `json:"state"`
	Identity provider.Identity      `json:"identity"`
	Tools    int                    `json:"tools"`
	Failure  *adminError            `json:"failure,omitempty"`
	RetryAt  time.Time              `json:"retryAt,omitzero"`
	Attempts int                    `json:"attempts,omitempty"`
	Notes    []string               `json:"notes,omitempty"`
	Pool     *connection.PoolStatus `json:"pool,omitempty"`
}

func (a *admin) status(w http.ResponseWriter, _ *http.Request) {
	st := a.h.Status()
	out := adminStatus{Name: a.h.config.Name, Recorded: a.h.ledger != nil, Threads: st.Threads,
		Running: append([]ExecutionID{}, st.Running...), Connections: []adminConnection{}}
	for _, c := range st.Connections {
		view := adminConnection{Name: c.Name, State: c.State, Identity: c.Identity, Tools: len(c.Tools),
			RetryAt: c.RetryAt, Attempts: c.Attempts, Notes: c.Notes, Pool: c.Pool}
		if c.Err != nil {
			view.Failure = a.told(c.Err)
		}
		out.Connections = append(out.Connections, view)
	}
	for i := range st.Triggers {
		out.Triggers = append(out.Triggers, a.trigger(&st.Triggers[i]))
	}
	a.reply(w, http.StatusOK, out)
}

// refuse answers with the status of an error.
func (a *admin) refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		status = http.StatusRequestEntityTooLarge
	}
	switch fault.CodeOf(err) {
	case fault.ExecutionUnknown:
		status = http.StatusNotFound
	case fault.ArgsInvalid, fault.HarnessInvalid:
		status = http.StatusBadRequest
	case fault.ExecutionExists:
		status = http.StatusConflict
	case fault.Closed, fault.Cancelled, fault.Timeout:
		status = http.StatusServiceUnavailable
	}
	a.fail(w, status, err)
}

func (a *admin) fail(w http.ResponseWriter, status int, err error) {
	a.reply(w, status, a.told(err))
}

// told is an error as it is shown, without credentials.
func (a *admin) told(err error) *adminError {
	err = a.h.chain.Error(err)
	out := &adminError{Error: err.Error(), Code: fault.CodeOf(err)}
	if fe, ok := err.(*fault.Error); ok {
		bare := *fe
		bare.Hint = ""
		out.Error, out.Hint = bare.Error(), fe.Hint
	}
	return out
}

func (a *admin) reply(w http.ResponseWriter, status int, value any) {
	headers(w, "application/json")
	w.WriteHeader(status)
	a.line(w, value)
}

// line writes a value as one line of JSON, and reports whether that went well.
func (a *admin) line(w io.Writer, value any) bool {
	raw, err := json.Marshal(value)
	if err != nil {
		raw = []byte(`{"error":"the answer cannot be written"}`)
	}
	_, failed := io.WriteString(w, seen(string(a.h.scrubber.JSON(raw)))+"\n")
	return err == nil && failed == nil
}

// headers say that no browser may take an answer for anything else, and nobody
// keep it.
func headers(w http.ResponseWriter, kind string) {
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
}

// seen writes characters of compact JSON that cannot be seen, or change how
// others are seen, as escapes. Its value stays the same.
func seen(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}
