package gates

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/schema"
)

// HandlerOptions configure NewHandler. The zero value works.
type HandlerOptions struct {
	// Prefix is the path the handler is mounted at, as requests have it. Default
	// "/approvals/".
	Prefix string
	// By names who sends a request, for the record, in place of what the request
	// says about itself. Default nil: the request's own "by", else "http".
	By func(*http.Request) string
}

// NewHandler lets people and programs decide over HTTP:
//
//	GET  /approvals/?limit=20&after=…   what waits, soonest to run out first
//	GET  /approvals/{id}                one approval, also after it was decided
//	POST /approvals/{id}                {"verdict":"allow","reason":"…","by":"…","scope":"execution"}
//
// A body may also have "digest", which must be that of the approval, and for a
// question "args", the form. Verdicts are allow, deny and guide.
//
// Every request needs the header "Authorization: Bearer <token>"; cookies and
// addresses mean nothing, so no web page can decide in somebody's name. With an
// empty token nothing is served. Whoever has the token may see and decide all;
// serve it over TLS or on a local socket.
//
// Errors are JSON as well: 400 and 413 for a body that cannot be taken, 401, 404
// for what is not there, 405, 409 for what was decided before or has another
// digest, 500 and 503 if the store fails or is closed. What models and servers
// wrote is only ever inside JSON strings, with characters that cannot be seen
// escaped. Arguments over 4 KiB are cut to a preview in lists.
func NewHandler(a *Approvals, token string, opts *HandlerOptions) http.Handler {
	h := &approvalsHandler{book: a, prefix: "/approvals/", token: sha256.Sum256([]byte(token)), closed: token == ""}
	if opts != nil && opts.Prefix != "" {
		h.prefix = strings.TrimSuffix(opts.Prefix, "/") + "/"
	}
	if opts != nil {
		h.by = opts.By
	}
	return h
}

const (
	defaultPage = 20
	maxPage     = 50               // each may have 256 KiB in the store
	maxDecision = maxForm + 16<<10 // bytes of a body
	maxListed   = 4 << 10          // bytes of arguments in a list
	decideDepth = maxFormDepth + 1 // of the JSON of a body
)

type approvalsHandler struct {
	book   *Approvals
	prefix string
	token  [sha256.Size]byte // digest of the token
	closed bool              // there is no token
	by     func(*http.Request) string
}

// ServeHTTP answers one request.
func (h *approvalsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.closed {
		replyError(w, http.StatusServiceUnavailable, "no token is set, so nobody can be let in")
		return
	}
	if !h.authorised(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		replyError(w, http.StatusUnauthorized, "the bearer token is missing or wrong")
		return
	}
	id, ok := strings.CutPrefix(r.URL.Path, h.prefix)
	switch {
	case !ok && r.URL.Path != strings.TrimSuffix(h.prefix, "/"):
		replyError(w, http.StatusNotFound, "there is nothing at this path")
	case !ok || id == "":
		h.serve(w, r, map[string]http.HandlerFunc{http.MethodGet: h.list})
	default:
		h.serve(w, r, map[string]http.HandlerFunc{
			http.MethodGet:  func(w http.ResponseWriter, r *http.Request) { h.show(w, r, ApprovalID(id)) },
			http.MethodPost: func(w http.ResponseWriter, r *http.Request) { h.decide(w, r, ApprovalID(id)) },
		})
	}
}

// authorised compares digests, which have one length, in constant time.
func (h *approvalsHandler) authorised(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(token))
	return hmac.Equal(sum[:], h.token[:]) && strings.EqualFold(scheme, "Bearer")
}

// serve picks the function for the request's method.
func (h *approvalsHandler) serve(w http.ResponseWriter, r *http.Request, methods map[string]http.HandlerFunc) {
	if r.Method == http.MethodHead {
		methods[http.MethodHead] = methods[http.MethodGet]
	}
	f, ok := methods[r.Method]
	if !ok {
		allow := "GET, HEAD"
		if methods[http.MethodPost] != nil {
			allow += ", POST"
		}
		w.Header().Set("Allow", allow)
		replyError(w, http.StatusMethodNotAllowed, "the method is not allowed here")
		return
	}
	f(w, r)
}

func (h *approvalsHandler) list(w http.ResponseWriter, r *http.Request) {
	limit := defaultPage
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			replyError(w, http.StatusBadRequest, "limit is not a positive number")
			return
		}
		limit = min(n, maxPage)
	}
	page, next, err := h.book.pending(r.Context(), r.URL.Query().Get("after"), limit)
	if err != nil {
		replyFailure(w, err)
		return
	}
	out := approvalPage{Approvals: []approvalView{}, Next: next}
	for _, a := range page {
		out.Approvals = append(out.Approvals, viewOf(a, maxListed))
	}
	reply(w, http.StatusOK, out)
}

func (h *approvalsHandler) show(w http.ResponseWriter, r *http.Request, id ApprovalID) {
	err := h.book.expireDue(r.Context())
	var a *Approval
	if err == nil {
		a, err = h.book.Find(r.Context(), id)
	}
	if err != nil {
		replyFailure(w, missing(err))
		return
	}
	reply(w, http.StatusOK, viewOf(a, maxKeptArgs))
}

func (h *approvalsHandler) decide(w http.ResponseWriter, r *http.Request, id ApprovalID) {
	d, digest, err := h.decision(w, r)
	if err != nil {
		replyFailure(w, err)
		return
	}
	a, err := h.book.Find(r.Context(), id)
	if err != nil {
		replyFailure(w, missing(err))
		return
	}
	if digest != "" && digest != a.Digest {
		replyError(w, http.StatusConflict, "the approval has another digest")
		return
	}
	if err := h.book.Decide(r.Context(), id, d); err != nil {
		replyFailure(w, err)
		return
	}
	h.show(w, r, id)
}

// decisionBody is what is posted.
type decisionBody struct {
	Verdict Verdict         `json:"verdict"`
	Reason  string          `json:"reason"`
	By      string          `json:"by"`
	Scope   Scope           `json:"scope"`
	Digest  string          `json:"digest"`
	Args    json.RawMessage `json:"args"`
}

// decision reads a body strictly.
func (h *approvalsHandler) decision(w http.ResponseWriter, r *http.Request) (d Decision, digest string, err error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDecision))
	if err != nil {
		return d, "", err
	}
	body, err := parseDecision(raw)
	if err != nil {
		return d, "", err
	}
	d = Decision{Verdict: body.Verdict, Reason: body.Reason, By: body.By, Scope: body.Scope, Args: body.Args}
	if h.by != nil {
		d.By = h.by(r)
	}
	if d.By == "" {
		d.By = "http"
	}
	return d, body.Digest, nil
}

// parseDecision takes the names as they are spelled and nothing twice, so that
// no one in front of the handler reads another decision out of a body.
func parseDecision(raw []byte) (*decisionBody, error) {
	canonical, tree, issue := schema.Canonical(raw, decideDepth)
	if issue != nil {
		return nil, decisionInvalid(*issue)
	}
	members, ok := tree.(map[string]any)
	if !ok {
		return nil, decisionInvalid(fault.Issue{Message: "is not an object"})
	}
	for name := range members {
		switch name {
		case "verdict", "reason", "by", "scope", "digest", "args":
		default:
			return nil, decisionInvalid(fault.Issue{Message: "has the unknown field " + fault.Quote(name)})
		}
	}
	var body decisionBody
	if err := json.Unmarshal(canonical, &body); err != nil {
		return nil, decisionInvalid(fault.Issue{Message: "is not what was expected: " + err.Error()})
	}
	if string(body.Args) == "null" {
		body.Args = nil
	}
	return &body, nil
}

// errMissing is what is not there, as opposed to what was decided before.
var errMissing = errors.New("there is no such approval")

func missing(err error) error {
	if errors.Is(err, fault.ApprovalClosed) {
		return errMissing
	}
	return err
}

// replyFailure answers with the status of an error.
func replyFailure(w http.ResponseWriter, err error) {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		replyError(w, http.StatusRequestEntityTooLarge, "the body is too long")
	case errors.Is(err, errMissing):
		replyError(w, http.StatusNotFound, err.Error())
	case errors.Is(err, fault.ApprovalClosed):
		replyError(w, http.StatusConflict, err.Error())
	case errors.Is(err, fault.ArgsInvalid):
		replyError(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, fault.Closed), errors.Is(err, fault.Cancelled), errors.Is(err, fault.Timeout):
		replyError(w, http.StatusServiceUnavailable, "the book is closed, or the request was given up")
	case errors.Is(err, fault.StoreFailed), errors.Is(err, fault.StoreUnsupported):
		replyError(w, http.StatusInternalServerError, "the store failed")
	default:
		replyError(w, http.StatusBadRequest, "the body cannot be read")
	}
}

// replyError answers with an error.
func replyError(w http.ResponseWriter, status int, text string) {
	reply(w, status, map[string]string{"error": text})
}

// reply answers with JSON that no browser takes for anything else and nobody
// keeps.
func reply(w http.ResponseWriter, status int, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		status, raw = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, visible(string(raw))+"\n")
}
