package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/bridle-dev/bridle/fault"
)

// socket is a harness that serves Admin.
type socket struct {
	path   string
	client http.Client
}

// maxAnswer bounds what is read at once: a page of executions or of approvals.
const maxAnswer = 64 << 20

// dial returns the harness that is to do what the command line says.
func (c *command) dial(what string) (*socket, error) {
	if c.socket == "" {
		return nil, misuse("%s needs a harness that runs", what).
			hint("Name its socket with -socket or BRIDLE_SOCKET; a program serves it with AgentHarness.Admin.")
	}
	s := &socket{path: c.socket}
	s.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.path)
	}}
	return s, nil
}

func (s *socket) close() error {
	s.client.CloseIdleConnections()
	return nil
}

// send makes a request. An answer that is not 200 becomes a failure.
func (s *socket) send(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://bridle"+path, content)
	if err != nil {
		return nil, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, s.unreachable(ctx, err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	return nil, refusal(res)
}

// unreachable tells why nobody answers.
func (s *socket) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	f := fail(exitUnreachable, "socket_unreachable", "the socket %s does not answer: %v", fault.Quote(s.path), root(err))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.hint("Is the program running, and is this where it serves Admin? A store that no program has open is read with -store.")
	case errors.Is(err, fs.ErrPermission):
		return f.hint("Only the user that runs the program may open it.")
	}
	return f.hint("The program may have ended without removing the socket. A store that no program has open is read with -store.")
}

// root is the innermost error, which says what the outer ones repeat.
func root(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// refusal is the failure that an answer tells.
func refusal(res *http.Response) error {
	var told struct{ Error, Code, Hint string }
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if json.Unmarshal(raw, &told) != nil || told.Error == "" {
		return fail(exitUnreachable, "socket_foreign", "what answers there is no harness: it said %s", res.Status)
	}
	f := &failure{Code: told.Code, Message: told.Error, Hint: told.Hint, Exit: exitFailed}
	named := func(exit int, code string) {
		if f.Exit = exit; f.Code == "" {
			f.Code = code
		}
	}
	switch res.StatusCode {
	case http.StatusNotFound:
		named(exitMissing, "not_found")
	case http.StatusConflict:
		named(exitRefused, string(fault.ApprovalClosed))
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		named(exitUsage, string(fault.ArgsInvalid))
	case http.StatusForbidden, http.StatusUnauthorized:
		named(exitUnreachable, "not_allowed")
	case http.StatusServiceUnavailable:
		named(exitUnreachable, string(fault.Closed))
	default:
		named(exitFailed, "failed")
	}
	return f
}

// ask makes a request and reads its answer.
func (s *socket) ask(ctx context.Context, method, path string, body, into any) error {
	answer, err := s.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	return unreadable(json.NewDecoder(io.LimitReader(answer, maxAnswer)).Decode(into))
}

func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return fail(exitFailed, "answer_invalid", "the answer cannot be read: %v", err).
		hint("The harness may be of another version than this program, or may have ended.")
}

func (s *socket) runs(ctx context.Context, after string) iter.Seq2[*execution, error] {
	return func(yield func(*execution, error) bool) {
		for after := after; ; {
			var page struct {
				Executions []*execution
				Next       string
				Recorded   bool
			}
			err := s.ask(ctx, http.MethodGet, "/executions?limit=1000&after="+url.QueryEscape(after), nil, &page)
			if err == nil && !page.Recorded {
				err = fail(exitUnreachable, "no_ledger", "the harness keeps no record of executions").hint("Set its Config.Store.")
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, x := range page.Executions {
				if !yield(x, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

func (s *socket) run(ctx context.Context, id string) (*outcome, error) {
	o := new(outcome)
	return o, s.ask(ctx, http.MethodGet, "/executions/"+url.PathEscape(id), nil, o)
}

func (s *socket) entries(ctx context.Context, id string, values bool) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		query := "?values=none"
		if values {
			query = "?values=all"
		}
		answer, err := s.send(ctx, http.MethodGet, "/executions/"+url.PathEscape(id)+"/entries"+query, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		defer answer.Close()
		for lines := json.NewDecoder(answer); ; {
			var line struct {
				Entry             *entry
				End               *struct{ Entries int }
				Error, Code, Hint string
			}
			err := unreadable(lines.Decode(&line))
			switch {
			case err == nil && line.Error != "":
				err = &failure{Code: line.Code, Message: line.Error, Hint: line.Hint, Exit: exitFailed}
			case err == nil && line.End != nil:
				return
			case err == nil && line.Entry == nil:
				continue // something that a later version tells
			}
			if !yield(line.Entry, err) || err != nil {
				return
			}
		}
	}
}

// within is a path under approvals.
func within(id string) string { return "/approvals/" + url.PathEscape(strings.TrimSpace(id)) }
