package mcp

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

const (
	// straysShown is how many of each kind are logged one by one.
	straysShown = 5
	// maxSample is how much of one is looked at.
	maxSample = 4 << 10
)

// strays counts what a server sends that nobody can make use of: text that is
// no message, and answers that belong to no request. Whoever waits in vain is
// told of them.
type strays struct {
	clean func(string) string // takes credentials out
	log   *slog.Logger

	mu      sync.Mutex
	text    stray
	answers stray
}

// stray is one kind of them.
type stray struct {
	n     int
	first string
}

func newStrays(clean func(string) string, log *slog.Logger) *strays {
	return &strays{clean: clean, log: log}
}

// skip counts text that is no message: a banner or a log on stdout.
func (s *strays) skip(text []byte) {
	sample := fault.Quote(s.clean(string(text[:min(len(text), maxSample)])))
	s.count(&s.text, sample, "mcp server wrote something else than MCP")
}

// answer counts an answer under an id that no request had, and describes it.
func (s *strays) answer(id jsonrpc.ID) (what string) {
	what = "one under the id " + fault.Quote(s.clean(fmt.Sprint(id.Raw())))
	s.count(&s.answers, what, "mcp server answered what it was not asked")
	return what
}

// refusal counts an error without an id, and describes it.
func (s *strays) refusal(r *jsonrpc.Error) (what string) {
	what = fmt.Sprintf("one without id: %s (%d)", fault.Quote(s.clean(plain(r.Message))), r.Code)
	s.count(&s.answers, what, "mcp server answered what it was not asked")
	return what
}

func (s *strays) count(kind *stray, what, log string) {
	s.mu.Lock()
	kind.n++
	n := kind.n
	if n == 1 {
		kind.first = what
	}
	s.mu.Unlock()
	if n <= straysShown {
		s.log.Warn(log, "what", what, "count", n)
	}
}

// sighting is how many there were at some time.
type sighting struct {
	of            *strays
	text, answers int
}

func (s *strays) sight() sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sighting{of: s, text: s.text.n, answers: s.answers.n}
}

// since says what came after that, "" for nothing.
func (t sighting) since() string {
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []string
	if n := s.answers.n - t.answers; n > 0 {
		parts = append(parts, fmt.Sprintf("%d answers of the server belong to no request, such as %s", n, s.answers.first))
	}
	if n := s.text.n - t.text; n > 0 {
		parts = append(parts, fmt.Sprintf("%d lines of the server were no MCP and were skipped, such as %s", n, s.text.first))
	}
	return strings.Join(parts, "; ")
}

// note is a remark for the manifest, "" without one.
func (s *strays) note() string { return sighting{of: s}.since() }

// gave reports whether a request may have had an id. What the SDK counts is
// taken for granted; so answers that come late or twice are no strays.
func (t *tap) gave(id jsonrpc.ID) bool {
	switch v := id.Raw().(type) {
	case int64:
		t.mu.Lock()
		defer t.mu.Unlock()
		return v >= 0 && v <= firstOwn+int64(t.next)
	case string:
		return strings.HasPrefix(v, idPrefix)
	}
	return false
}

// only returns the id of the one request that waits for an answer, if it is
// one: an answer that belongs to no request must be meant for it.
func (t *tap) only() (id jsonrpc.ID, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.byID {
		if !x.waits() {
			continue
		}
		if id.IsValid() {
			return jsonrpc.ID{}, false
		}
		id = x.id
	}
	return id, id.IsValid()
}

// astray is the failure of the request that a stray answer is taken for.
func astray(what string) error {
	return provider.Unknown(fault.New(fault.ResultInvalid, "the server's answer belongs to no request: %s", what))
}
