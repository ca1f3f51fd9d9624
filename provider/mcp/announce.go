package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
)

// subscription is what a server was asked to announce, and what of that it
// agreed to (MCP 2026-07-28, "Subscriptions").
type subscription struct {
	mu     sync.Mutex
	asked  map[string]json.RawMessage
	remark string
}

// filter is the part of a request or an acknowledgement that names what is
// announced.
func filter(params json.RawMessage) map[string]json.RawMessage {
	var p struct {
		Notifications map[string]json.RawMessage `json:"notifications"`
	}
	if json.Unmarshal(params, &p) != nil {
		return nil
	}
	return p.Notifications
}

// ask notes what a listen request asks for.
func (s *subscription) ask(params json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = filter(params)
}

// acknowledged compares the server's word with what it was asked for, and
// reports whether it changed since the last time.
func (s *subscription) acknowledged(params json.RawMessage) (changed bool) {
	agreed := filter(params)
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(s.asked)) {
		if string(s.asked[name]) == "true" && string(agreed[name]) != "true" {
			missing = append(missing, name)
		}
	}
	before := s.remark
	s.remark = ""
	if len(missing) > 0 {
		s.remark = "the server does not announce changes although it says so: " + strings.Join(missing, ", ")
	}
	return s.remark != before
}

// refused notes that the server wants no subscription at all.
func (s *subscription) refused(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remark = "the server refuses to announce changes although it says so: " + why
}

// note is a remark for the manifest, "" without one.
func (s *subscription) note() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remark
}
