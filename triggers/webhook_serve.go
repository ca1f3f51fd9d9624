package triggers

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// How soon a sender may come again, in seconds. Most follow plans of their own.
const (
	retryBusy  = 1
	retryStore = 5
)

// usualBody is the most bytes that are reserved for a body before it is read: a
// sender may say that more come, and send nothing.
const usualBody = 16 << 10

// ServeHTTP answers one delivery.
func (r *WebhookReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	rt := r.route(req.URL.Path)
	defer func() {
		p := recover()
		if p == http.ErrAbortHandler {
			panic(p) // the server's own way to end a response
		}
		if p != nil {
			r.refuse(w, req, rt, fmt.Errorf("%w: %s", RefusedPanic, panicked(p)))
		}
	}()
	v, err := r.deliver(w, req, rt)
	switch {
	case errors.Is(err, errIgnored):
		r.counts.ignored.Add(1)
		answer(w, http.StatusOK, "ignored\n")
	case err != nil:
		r.refuse(w, req, rt, err)
	case v.Reply != nil:
		r.counts.answered.Add(1)
		answer(w, http.StatusOK, string(v.Reply))
	default:
		r.counts.accepted.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}
}

// panicked describes a panic without what it may hold of a request or a secret.
func panicked(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return fault.Quote(err.Error())
	}
	return fmt.Sprintf("a value of type %T", p)
}

// deliver takes a request all the way; no error means that it is stored, or
// that there is a reply.
func (r *WebhookReceiver) deliver(w http.ResponseWriter, req *http.Request, rt *route) (*Verified, error) {
	if rt == nil {
		return nil, RefusedRoute
	}
	if req.Method != http.MethodPost {
		return nil, RefusedMethod
	}
	defer r.inFlight.Add(-1)
	if r.inFlight.Add(1) > int64(r.opts.InFlight) {
		return nil, RefusedBusy
	}
	body, err := r.read(w, req)
	if err != nil {
		return nil, err
	}
	v, err := verify(rt.verifier, &WebhookRequest{Header: req.Header, Body: body, Now: time.Now()})
	if err != nil || v.Reply != nil {
		return v, err
	}
	late := time.NewTimer(r.opts.Wait) // a context of its own would cost more than the delivery
	defer late.Stop()
	return v, rt.sink(req.Context(), late.C, v)
}

// read takes the body, of which no more is held than was sent. Senders are not known
// yet, so that one which does not go on must not keep its place for ever; what the
// server allows may be less.
func (r *WebhookReceiver) read(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	if req.ContentLength > r.opts.MaxBody {
		return nil, RefusedSize
	}
	slow := time.AfterFunc(r.opts.Wait, func() {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // has the reading fail, if the server can
	})
	defer slow.Stop()
	body, err := readAll(http.MaxBytesReader(w, req.Body, r.opts.MaxBody), int(min(max(req.ContentLength, 0), usualBody)))
	if err != nil {
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			return nil, RefusedSize
		}
		return nil, RefusedBody
	}
	return body, nil
}

// readAll is io.ReadAll of what probably has so many bytes: most bodies are short,
// and kept.
func readAll(from io.Reader, size int) ([]byte, error) {
	all := make([]byte, 0, size+1) // one more, to see the end
	for {
		n, err := from.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
		switch {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		case len(all) == cap(all):
			all = append(all, 0)[:len(all)]
		}
	}
}

// verify asks a verifier, whose own kinds of error are bad signatures.
func verify(v Verifier, req *WebhookRequest) (*Verified, error) {
	out, err := v.Verify(req)
	if err != nil {
		if _, ok := errors.AsType[Refusal](err); !ok {
			err = fmt.Errorf("%w: %w", RefusedSignature, err)
		}
		return nil, err
	}
	if out == nil || out.Reply == nil && out.ID == "" {
		return nil, fmt.Errorf("the delivery has no id: %w", RefusedFormat)
	}
	return out, nil
}

// refusalOf is what the sender is told of an error. What is neither a refusal
// nor about the payload means that the event is not stored.
func refusalOf(err error) Refusal {
	if refusal, ok := errors.AsType[Refusal](err); ok {
		return refusal
	}
	if errors.Is(err, fault.ArgsInvalid) {
		return RefusedPayload
	}
	return RefusedStore
}

func (r *WebhookReceiver) refuse(w http.ResponseWriter, req *http.Request, rt *route, err error) {
	refusal := refusalOf(err)
	r.counts.refuse(refusal)
	about := []slog.Attr{slog.String("reason", string(refusal)), slog.Any("err", err)}
	if rt != nil {
		about = append(about, slog.String("route", rt.path))
	}
	if fe, ok := errors.AsType[*fault.Error](err); ok && len(fe.Issues) > 0 {
		about = append(about, slog.Any("issues", fe.Issues))
	}
	r.opts.Logger.LogAttrs(req.Context(), slog.LevelWarn, "webhook refused", about...)
	switch refusal {
	case RefusedMethod:
		w.Header().Set("Allow", http.MethodPost)
	case RefusedBusy:
		w.Header().Set("Retry-After", strconv.Itoa(retryBusy))
	case RefusedStore:
		w.Header().Set("Retry-After", strconv.Itoa(retryStore))
	}
	status := refusal.status()
	answer(w, status, http.StatusText(status)+"\n")
}

func answer(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the sender may be gone, and knows by itself
}
