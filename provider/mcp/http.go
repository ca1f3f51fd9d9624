package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Header is one header of the requests to a server.
type Header struct {
	Name  string // as in RFC 9110, any case
	Value string // sent as it stands; never shown
}

// HTTPOptions configure a server that is reached over HTTP. The zero value
// works. The options are copied; changing them later has no effect.
type HTTPOptions struct {
	// Headers go with every request to the server's origin, and nowhere else.
	// Values of eight and more characters are redacted everywhere.
	Headers []Header
	// Transport makes the requests; nil is a copy of http.DefaultTransport
	// for each connection, which keeps more network connections for later
	// requests. It must not follow redirects.
	Transport http.RoundTripper
	// MaxBody is the size in bytes of the longest message that the server may
	// send; 0 is 32 MiB. A longer one fails the call that it answers.
	MaxBody int
	// ConnectTimeout bounds Connect as a whole; 0 is 30 s.
	ConnectTimeout time.Duration
	// Timeout is how long any call or read may take, whatever it reports; 0 is
	// without limit. Running into it or into IdleTimeout is [fault.Timeout] and
	// [fault.OutcomeUnknown]; the server is told that nobody waits any more.
	Timeout time.Duration
	// IdleTimeout is how long a call or read may go on without an answer or a
	// report about its progress; 0 is without limit. The time that a person
	// takes to answer a question of the server counts for neither.
	IdleTimeout time.Duration
}

func (o *HTTPOptions) limits() limits {
	return limits{connect: o.ConnectTimeout, call: o.Timeout, idle: o.IdleTimeout}
}

// HTTP returns the provider of an MCP server at an http or https URL that
// speaks Streamable HTTP (MCP, "Transports"), in either era. User information
// in the URL becomes basic authentication.
//
// A session that the server forgot, and a server that cannot be reached, close
// the connection; every other failure costs one call. Redirects are followed
// within the origin only.
func HTTP(endpoint string, opts *HTTPOptions) provider.Provider {
	p := &remote{endpoint: endpoint}
	if opts != nil {
		p.opts = *opts
		p.opts.Headers = slices.Clone(opts.Headers)
	}
	return p
}

type remote struct {
	endpoint string
	opts     HTTPOptions
}

// Check implements provider.Checker.
func (p *remote) Check() error {
	_, err := p.url()
	errs := []error{err}
	seen := map[string]bool{}
	for i, h := range p.opts.Headers {
		name := strings.ToLower(h.Name)
		switch {
		case !validName(h.Name):
			// Not quoted: a value may have ended up in the name's place.
			errs = append(errs, invalid(fmt.Sprintf("entry %d of Headers has no valid name", i), "name a header as in RFC 9110"))
		case !validValue(h.Value):
			errs = append(errs, invalid("the value of header "+fault.Quote(h.Name)+" holds control characters",
				"remove them; a line end at the end of a file is the usual one"))
		case seen[name]:
			errs = append(errs, invalid("header "+fault.Quote(h.Name)+" is set twice", "keep one of the entries in Headers; case does not matter"))
		}
		seen[name] = true
	}
	if p.opts.MaxBody < 0 {
		errs = append(errs, invalid("MaxBody cannot be negative", "leave it 0 for the default"))
	}
	errs = append(errs, p.opts.limits().check())
	return errors.Join(errs...)
}

// validName reports whether s is a token as of RFC 9110, section 5.6.2.
func validName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// validValue reports whether s holds no control characters but tabs.
func validValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// url parses the endpoint. Its errors never quote it: it may hold credentials.
func (p *remote) url() (*url.URL, error) {
	u, err := url.Parse(p.endpoint)
	switch {
	case err != nil:
		return nil, invalid("the URL cannot be parsed", "check it for spaces and control characters")
	case p.endpoint == "":
		return nil, invalid("the URL is empty", "write it as https://host/path")
	case u.Host == "" && u.Scheme != "http" && u.Scheme != "https":
		return nil, invalid("the URL has no scheme", "write it as http://host:port/path; for a program use mcp.Command")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalid("the URL's scheme is "+fault.Quote(u.Scheme), "use http or https; for a program use mcp.Command")
	case u.Host == "":
		return nil, invalid("the URL has no host", "write it as https://host/path")
	}
	return u, nil
}

// Equal implements provider.Equaler.
func (p *remote) Equal(other provider.Provider) bool {
	o, ok := other.(*remote)
	return ok && (p == o || p.endpoint == o.endpoint && slices.Equal(p.opts.Headers, o.opts.Headers) &&
		p.opts.MaxBody == o.opts.MaxBody && p.opts.limits() == o.opts.limits() && p.opts.Transport == nil && o.opts.Transport == nil)
}

// Connect implements provider.Provider.
func (p *remote) Connect(ctx context.Context, opts *provider.ConnectOptions) ([]provider.Conn, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fault.New(fault.Unavailable, "cannot connect: %w", err)
	}
	ctx, cancel := p.opts.limits().connecting(ctx)
	defer cancel()
	opts = opts.Normal()
	log := opts.Logger.With(slog.String("connection", opts.Name))
	scrub := &scrubber{redact: opts.Redact}
	endpoint, _ := p.url() // checked above
	p.register(scrub, endpoint)

	refresh := newSignal()
	w := p.wire(endpoint, newTap(newAsker(opts.Ask, log)), scrub, log)
	w.missed = refresh.raise
	d := &dialing{
		transport: &sdk.StreamableClientTransport{
			Endpoint: w.address, HTTPClient: &http.Client{Transport: w}, MaxEventSize: 2 * w.maxBody,
		},
		link: w, tap: w.tap, scrub: scrub, log: log, refresh: refresh, limits: p.opts.limits(), vouched: vouchers(opts.Profiles),
		reachedBy: []string{"http", endpoint.Scheme, endpoint.Host, endpoint.Path},
		notes:     func() []string { return []string{w.tap.strays.note(), w.listening.note()} },
	}
	// The SDK cleans up with requests of its own when it gives up, which must
	// not outlast ctx.
	stop := context.AfterFunc(ctx, w.cut)
	c, err := w.open(ctx, d)
	if !stop() && err == nil {
		c.end(ctx.Err())
		<-c.gone
		return nil, fault.New(fault.Unavailable, "cannot connect: %w", context.Cause(ctx))
	}
	if err != nil {
		w.shut()
		return nil, err
	}
	return one(c), nil
}

// open brings a session up in the server's era.
func (w *wire) open(ctx context.Context, d *dialing) (*conn, error) {
	found, err := w.ask(ctx)
	if err != nil {
		return nil, d.failed(ctx, err)
	}
	w.discovered, d.version = found, found.version
	return d.open(ctx)
}

// register makes the credentials of the configuration known before any is used.
func (p *remote) register(scrub *scrubber, u *url.URL) {
	for _, h := range p.opts.Headers {
		scrub.add(h.Value)
		if scheme, token, ok := strings.Cut(h.Value, " "); ok && !strings.Contains(scheme, "=") {
			scrub.add(strings.TrimSpace(token))
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		scrub.add(u.User.Username())
		scrub.add(password)
		scrub.add(u.User.String())
	}
	for _, values := range u.Query() {
		for _, v := range values {
			scrub.add(v)
		}
	}
}
