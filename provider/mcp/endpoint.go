package mcp

import (
	"context"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// deleteTimeout bounds the goodbye to a session; the server may be silent.
const deleteTimeout = time.Second

// lose reports that the peer is gone.
func (w *wire) lose(reason error) {
	w.mu.Lock()
	first := w.lostErr == nil
	if first {
		w.lostErr = reason
	}
	w.mu.Unlock()
	if first {
		w.losing <- reason
	}
}

func (w *wire) forget() {
	w.mu.Lock()
	w.session = true
	w.mu.Unlock()
	w.lose(errSessionGone)
}

func (w *wire) forgotten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session
}

// lost implements link.
func (w *wire) lost() <-chan error { return w.losing }

// mirrors implements link.
func (w *wire) mirrors() bool { return true }

// reason implements link.
func (w *wire) reason() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lostErr
}

// finish implements link: a goodbye, then everything is cut.
func (w *wire) finish(session *sdk.ClientSession) error {
	timer := time.AfterFunc(2*deleteTimeout, w.cut)
	defer timer.Stop()
	session.Close()
	w.shut()
	return nil
}

// shut cuts everything and waits for it.
func (w *wire) shut() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.cut()
	w.streams.Wait()
	w.close()
}

// spawn runs f, which must end once cut was called. It reports false if the
// connection is closing already.
func (w *wire) spawn(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return false
	}
	w.streams.Go(f)
	return true
}

// enter counts a request on its way to the server until streams.Done. It reports
// false if the connection is closing already: a request that came late would
// leave a network connection open that nobody closes.
func (w *wire) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return false
	}
	w.streams.Add(1)
	return true
}

// goodbye ends the session, if there still is one.
func (w *wire) goodbye(req *http.Request) (*http.Response, error) {
	if w.forgotten() {
		return reply(req, http.StatusNoContent, "", nil), nil
	}
	ctx, cancel := context.WithTimeout(req.Context(), deleteTimeout)
	defer cancel()
	resp, err := w.send(req.WithContext(ctx), nil)
	if err != nil {
		w.log.Debug("cannot end the mcp session", "error", err)
		return reply(req, http.StatusNoContent, "", nil), nil
	}
	resp.Body.Close()
	return reply(req, http.StatusNoContent, "", nil), nil
}

// notify sends a message that has no answer. Whatever the server says to it
// does not matter, unless the session is gone.
func (w *wire) notify(req *http.Request) (*http.Response, error) {
	resp, err := w.send(req, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if w.sessionGone(req, resp) {
		w.forget()
	} else if resp.StatusCode/100 != 2 {
		w.log.Debug("mcp server rejected a notification", "status", resp.StatusCode)
	}
	return reply(req, http.StatusAccepted, "", nil), nil
}
