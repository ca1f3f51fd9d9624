package harness

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
)

// settled waits until the first attempt to connect has ended, or the supervisor
// was stopped before.
func (s *supervisor) settled(ctx context.Context) error {
	for {
		s.mu.Lock()
		tried, over, err, changed := s.tried, s.state == connection.Closed, s.err, s.changed
		s.mu.Unlock()
		switch {
		case over:
			return fault.New(fault.Closed, "connection is closed")
		case tried:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// await returns the link of that name once it is ready. It waits for an
// attempt in progress or due within moments, and fails as unavailable
// otherwise: nothing has been sent.
func (s *supervisor) await(ctx context.Context, name connection.Name) (*link, error) {
	if l, _, err := s.peek(name, false); err != nil || l != nil && l.alive() {
		return l, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for late := false; ; {
		l, changed, err := s.peek(name, late)
		if err != nil || l != nil && l.alive() {
			return l, err
		}
		if late {
			return nil, s.unavailable(name)
		}
		select {
		case <-changed: // at once if l is lost, as the supervisor notices
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return nil, fault.From(context.Cause(ctx), fault.Cancelled)
		}
	}
}

// peek looks at the state once: a link, or a reason to give up, with a channel
// that is closed when looking again makes sense.
func (s *supervisor) peek(name connection.Name, late bool) (*link, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == connection.Ready:
		for _, l := range s.links {
			if l.name == name {
				return l, s.changed, nil
			}
		}
		return nil, nil, s.unknown(name)
	case s.state == connection.Closed && s.err != nil:
		return nil, nil, s.why(name)
	case s.state == connection.Closed:
		return nil, nil, fault.New(fault.Closed, "connection is closed").At(string(name), "")
	case late, s.state == connection.Unavailable && time.Until(s.retryAt) > soon:
		return nil, nil, s.why(name)
	}
	return nil, s.changed, nil
}

// wasReady reports whether the connection has been ready at least once.
func (s *supervisor) wasReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.met
}

func (s *supervisor) unavailable(name connection.Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why(name)
}

// why says why the connection cannot be used now. The caller holds mu.
func (s *supervisor) why(name connection.Name) error {
	err := s.err
	if err == nil {
		err = errors.New("not connected yet")
	}
	e := &fault.Error{Code: fault.Unavailable, Connection: string(name), Err: err}
	if !s.retryAt.IsZero() {
		return e.WithHint("Nothing was sent; the next attempt is in %s.", time.Until(s.retryAt).Round(100*time.Millisecond))
	}
	return e.WithHint("Nothing was sent.")
}

func (s *supervisor) unknown(name connection.Name) error {
	names := make([]string, len(s.links))
	for i, l := range s.links {
		names[i] = string(l.name)
	}
	return fault.New(fault.ConnectionUnknown, "provider of %q does not offer it", s.name).
		At(string(name), "").WithHint("It offers: %s.", fault.Names(names))
}

// snapshot returns the links that are or were there, without waiting.
func (s *supervisor) snapshot() []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.links)
}
