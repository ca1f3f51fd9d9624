package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// Problem is what a service says is wrong, in an answer's status and body or
// in the middle of a stream.
type Problem struct {
	Status  int           // of the answer; 0 within a stream
	Type    string        // the service's word for the kind of problem
	Code    string        // its finer word, if it has one
	Message string        // for people
	After   time.Duration // when to ask again; negative if it does not say
}

// Error describes the problem, its message cut to a bounded length.
func (p *Problem) Error() string {
	at := "the service reports a problem"
	if p.Status != 0 {
		at = strings.TrimSpace(fmt.Sprintf("the service answers %d %s", p.Status, http.StatusText(p.Status)))
	}
	if p.Message != "" {
		at += ": " + fault.Quote(p.Message)
	}
	return at
}

// Fault gives the problem its code: what the service's words say counts more
// than the status, which some services choose freely.
func (p *Problem) Fault() *fault.Error {
	e := &fault.Error{Code: p.code(), PeerCode: bounded(p.word()), Err: p}
	if p.After >= 0 && e.Code != fault.ModelRejected {
		e.Err = fmt.Errorf("%w: %w", p, model.RetryAfter{After: p.After})
	}
	if e.Code == fault.ModelRejected {
		e.Hint = p.hint()
	}
	return e
}

// word is the most telling of the service's own codes.
func (p *Problem) word() string {
	switch {
	case p.Code != "":
		return p.Code
	case p.Type != "":
		return p.Type
	case p.Status != 0:
		return strconv.Itoa(p.Status)
	}
	return ""
}

func (p *Problem) code() fault.Code {
	for _, word := range []string{p.Code, p.Type} {
		if code := codeOfWord(word); code != "" {
			return code
		}
	}
	return codeOfStatus(p.Status)
}

// codeOfWord knows the words whose meaning a status does not tell: of streams,
// which have none, and of accounts that are out of money, which answer 429.
func codeOfWord(word string) fault.Code {
	switch word {
	case "insufficient_quota", "billing_hard_limit_reached", "billing_error", "billing_not_active",
		"contract_spend_limit_reached", "enforced_spend_limit_reached":
		return fault.ModelRejected
	case "overloaded_error", "rate_limit_error", "rate_limit_exceeded", "ramp_limit_exceeded", "slow_down":
		return fault.ModelRateLimit
	case "invalid_request_error", "authentication_error", "permission_error", "not_found_error",
		"request_too_large", "context_length_exceeded", "invalid_prompt", "invalid_api_key", "model_not_found":
		return fault.ModelRejected
	case "api_error", "server_error", "timeout_error":
		return fault.ModelFailed
	}
	if status, err := strconv.Atoi(word); err == nil && status >= 300 && status < 600 {
		return codeOfStatus(status)
	}
	return ""
}

// statusOverloaded is Anthropic's; no RFC defines it.
const statusOverloaded = 529

func codeOfStatus(status int) fault.Code {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, statusOverloaded:
		return fault.ModelRateLimit
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return fault.ModelFailed
	}
	if status >= 300 && status < 500 {
		return fault.ModelRejected
	}
	return fault.ModelFailed
}

func (p *Problem) hint() string {
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "Check the APIKey of the model's configuration and what it may do."
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "Check the Model and the BaseURL of the model's configuration."
	}
	if p.Status >= 300 && p.Status < 400 {
		return "Set BaseURL to where the service really is; redirects are not followed."
	}
	return ""
}

// maxBody is how much of an unwelcome answer is read.
const maxBody = 64 << 10

// problemOf reads an answer that is not a success.
func problemOf(res *http.Response, body []byte, now time.Time) *Problem {
	p := &Problem{Status: res.StatusCode, After: retryAfter(res.Header, now)}
	p.Read(body)
	return p
}

// Read takes what a JSON body {"error": {"type", "code", "message"}} says, in
// the looser forms that compatible services use too. Anything else is left.
func (p *Problem) Read(body []byte) {
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return
	}
	if json.Unmarshal(answer.Error, &p.Message) == nil {
		return
	}
	var detail struct {
		Type    any `json:"type"`
		Code    any `json:"code"`
		Message any `json:"message"`
		Details struct {
			Code any `json:"error_code"`
		} `json:"details"`
	}
	// Fields that do not fit keep their zero value; the others are taken.
	if err := json.Unmarshal(answer.Error, &detail); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return
	}
	p.Type, p.Code, p.Message = plain(detail.Type), plain(detail.Code), plain(detail.Message)
	if p.Code == "" {
		p.Code = plain(detail.Details.Code)
	}
}

// plain is a word or a number as text.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// retryAfter reads the Retry-After header (RFC 9110, section 10.2.3), or the
// finer one that OpenAI sends. Negative means that there is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if d, ok := count(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	value := h.Get("Retry-After")
	if d, ok := count(value, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return -1
}

// count reads a number of units that fits a Duration.
func count(s string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(s, 64)
	const longest = float64(365 * 24 * time.Hour)
	if err != nil || !(n >= 0 && n*float64(unit) <= longest) {
		return 0, false
	}
	return time.Duration(n * float64(unit)), true
}

// bounded cuts a word of the service's.
func bounded(word string) string {
	const limit = 64
	if len(word) > limit {
		return strings.ToValidUTF8(word[:limit], "")
	}
	return word
}
