package harness

import (
	"net/http"
	"strconv"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/triggers"
)

// adminMessage is an event of the inbox as it is shown.
type adminMessage struct {
	*triggers.Message
	PayloadBytes int `json:"payloadBytes,omitempty"` // of what was left out, too
}

type adminMessages struct {
	Messages []adminMessage `json:"messages"`
	Next     uint64         `json:"next,omitempty"` // for after
}

type adminTrigger struct {
	ID         triggers.ID     `json:"id"`
	Connection connection.Name `json:"connection"`
	Event      string          `json:"event"`
	Listening  bool            `json:"listening"`
	Failure    *adminError     `json:"failure,omitempty"`
	CursorAt   time.Time       `json:"cursorAt,omitzero"`
	Pending    int             `json:"pending"`
	Running    int             `json:"running"`
	Done       int             `json:"done"`
	Dead       int             `json:"dead"`
	OldestMs   int64           `json:"oldestMs,omitempty"`
	LagMs      int64           `json:"lagMs,omitempty"`
	Accepted   int             `json:"accepted,omitempty"`
	Filtered   int             `json:"filtered,omitempty"`
	Duplicates int             `json:"duplicates,omitempty"`
	Conflicts  int             `json:"conflicts,omitempty"`
	Refused    int             `json:"refused,omitempty"`
	Gaps       int             `json:"gaps,omitempty"`
	Backward   int             `json:"backward,omitempty"`
}

func (a *admin) trigger(t *triggers.TriggerStatus) adminTrigger {
	view := adminTrigger{ID: t.Trigger, Connection: t.Connection, Event: t.Event, Listening: t.Listening, CursorAt: t.CursorAt,
		Pending: t.Pending, Running: t.Running, Done: t.Done, Dead: t.Dead, OldestMs: t.Oldest.Milliseconds(), LagMs: t.Lag.Milliseconds(),
		Accepted: t.Accepted, Filtered: t.Filtered, Duplicates: t.Duplicates, Conflicts: t.Conflicts, Refused: t.Refused,
		Gaps: t.Gaps, Backward: t.Backward}
	if t.Err != nil {
		view.Failure = a.told(t.Err)
	}
	return view
}

// inbox lists events, without their payloads.
func (a *admin) inbox(w http.ResponseWriter, r *http.Request) {
	limit, err := pageLimit(r)
	if err != nil {
		a.refuse(w, err)
		return
	}
	q := r.URL.Query()
	filter := triggers.InboxFilter{State: triggers.MessageState(q.Get("state")), Trigger: triggers.ID(q.Get("trigger")), Thread: ThreadID(q.Get("thread"))}
	if text := q.Get("after"); text != "" {
		if filter.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			a.refuse(w, fault.New(fault.ArgsInvalid, "after is no number of an event"))
			return
		}
	}
	page := adminMessages{Messages: []adminMessage{}}
	for m, err := range a.h.Inbox().List(r.Context(), filter) {
		if err != nil {
			a.refuse(w, err)
			return
		}
		if len(page.Messages) == limit {
			page.Next = page.Messages[limit-1].Seq
			break
		}
		view := messageFor(m)
		view.Event.Payload = nil
		page.Messages = append(page.Messages, view)
	}
	a.reply(w, http.StatusOK, page)
}

// messageFor is an event as it is shown. It changes m, which belongs to the caller.
func messageFor(m *triggers.Message) adminMessage {
	size := len(m.Event.Payload)
	m.Event.Payload = refs.WithoutSeals(m.Event.Payload)
	return adminMessage{m, size}
}

func (a *admin) message(w http.ResponseWriter, r *http.Request) {
	m, err := a.h.Inbox().Message(r.Context(), r.PathValue("id"))
	if err != nil {
		a.refuse(w, err)
		return
	}
	a.reply(w, http.StatusOK, messageFor(m))
}

func (a *admin) retry(w http.ResponseWriter, r *http.Request) {
	if err := a.h.Inbox().Retry(r.Context(), r.PathValue("id")); err != nil {
		a.refuse(w, err)
		return
	}
	a.message(w, r)
}

func (a *admin) drop(w http.ResponseWriter, r *http.Request) {
	reason, err := postedReason(w, r)
	if err == nil {
		err = a.h.Inbox().Drop(r.Context(), r.PathValue("id"), reason)
	}
	if err != nil {
		a.refuse(w, err)
		return
	}
	a.message(w, r)
}
