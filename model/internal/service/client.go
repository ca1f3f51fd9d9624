// Package service is what adapters of models behind HTTP share: a client that
// keeps its key to itself, streams of server-sent events with bounds, and the
// codes of what services say is wrong.
package service

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

// CheckURL returns what is wrong with a base URL. It is never quoted, as it
// may hold a password.
func CheckURL(base string) error {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fault.New(fault.ModelInvalid, "BaseURL is no absolute http or https URL").
			WithHint("Set BaseURL to something like https://host/path.")
	case u.User != nil:
		return fault.New(fault.ModelInvalid, "BaseURL holds a user or a password").
			WithHint("Move the credential to APIKey, or to the Transport of HTTPClient.")
	case u.RawQuery != "" || u.Fragment != "":
		return fault.New(fault.ModelInvalid, "BaseURL holds a query or a fragment").
			WithHint("Set BaseURL without them; the Transport of HTTPClient can add parameters.")
	}
	return nil
}

// Client returns a copy of c, or of the default client, that follows no
// redirects: a key belongs to the service it was configured for.
func Client(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// Service posts requests and reads streams.
type Service struct {
	scrub func(string) string
}

// New makes a Service that keeps key out of all errors.
func New(key string) *Service {
	const shortest = 6 // below this it is no secret, and would spoil plain words
	if len(key) < shortest {
		return &Service{scrub: func(s string) string { return s }}
	}
	r := strings.NewReplacer(key, "[key]")
	return &Service{scrub: r.Replace}
}

// Screen is a middleware of both vendors' SDKs: it turns answers that are no
// stream into errors before an SDK reads them without bounds.
func (s *Service) Screen(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(req)
	if err != nil {
		return res, err
	}
	if res.StatusCode/100 == 2 && streams(res.Header) {
		return res, nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil && req.Context().Err() != nil {
		return nil, req.Context().Err()
	}
	return nil, s.refusal(res, body)
}

// streams says whether an answer may be a stream: not every compatible service
// labels it as it should.
func streams(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err != nil || media != "text/html" && media != "application/json"
}

func (s *Service) refusal(res *http.Response, body []byte) error {
	p := problemOf(res, body, time.Now())
	if res.StatusCode/100 == 2 && p.Code == "" && p.Type == "" && p.Message == "" {
		return fault.New(fault.ModelRejected, "the service answers with %s, not with a stream",
			fault.Quote(res.Header.Get("Content-Type"))).
			WithHint("Check the BaseURL of the model's configuration.")
	}
	return s.Fault(p)
}

// Fault is the problem's error, without the key.
func (s *Service) Fault(p *Problem) *fault.Error {
	clean := *p
	clean.Type, clean.Code, clean.Message = s.scrub(p.Type), s.scrub(p.Code), s.scrub(p.Message)
	return clean.Fault()
}

// Failed gives an error of the transport its code. The URL stays out of it.
func (s *Service) Failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if fe, ok := errors.AsType[*fault.Error](err); ok {
		return fe
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return fault.New(fault.ModelFailed, "asking the service: %w", err)
}
