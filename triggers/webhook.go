package triggers

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Defaults of WebhookOptions.
const (
	defaultMaxBody  = 1 << 20 // bytes; senders keep to tens of KiB, GitHub to 25 MiB
	defaultInFlight = 1024
	defaultWait     = 10 * time.Second // senders give up after 3 (Slack) to 30 s
)

// WebhookOptions configure a [WebhookReceiver]. Nil is the zero value. Negative
// values are mistakes, which the Check of each source reports.
type WebhookOptions struct {
	// MaxBody is the most bytes of one body; 0 is 1 MiB.
	MaxBody int64
	// InFlight is how many deliveries are dealt with at once; 0 is 1,024. Each
	// holds its body in memory, so that at most MaxBody times InFlight bytes are
	// held, and usually far fewer.
	InFlight int
	// Wait is how long a body may take to arrive, and after that how long it may
	// take to be stored before its sender is told to come again; 0 is ten seconds. It need not be longer than the sender
	// waits.
	Wait time.Duration
	// Logger is told of every refusal, with its reason and, where it is known,
	// the route; never of bodies, headers or secrets. Nil logs nothing.
	Logger *slog.Logger
}

// WebhookReceiver takes deliveries over HTTP and hands them to sources, one for
// each route:
//
//	hooks := triggers.NewWebhookReceiver(nil)
//	deploys := hooks.Source("/hooks/deploys", triggers.StandardWebhooks(secret), triggers.Declare[Deploy]("deploy.failed"))
//	// connection.Set{"deploys": {Provider: deploys}}, and beside the harness:
//	http.Handle("/hooks/", hooks)
//
// A sender is told 204 once the event is stored, or was stored before, and not
// earlier; whatever else it is told, it may send again. An event that was not
// declared gets 200 and is counted, so that its sender stops. Refusals have the
// status that stands beside each [Refusal]. A payload that does not fit its
// schema is refused with 422 and not stored: it can never become a message, and
// 422 tells the sender's people so, while a 2xx would lose it in silence.
//
// A sender that takes longer than [WebhookOptions.Wait] to send a body is refused;
// other limits of time are the server's, as http.Server.ReadHeaderTimeout.
// A WebhookReceiver may be used concurrently, and holds nothing live.
type WebhookReceiver struct {
	opts    WebhookOptions
	problem error // what is wrong with the options

	mu     sync.RWMutex
	routes map[string]*route // guarded by mu; by path

	inFlight atomic.Int64
	counts   counts
}

// route is where deliveries of one path go once they are verified.
type route struct {
	path     string
	verifier Verifier
	sink     sink
}

// sink takes what was verified, and gives up when it is late. Nil means that it is
// stored, errIgnored that nobody wants it; a Refusal in the error is what the sender
// is told.
type sink func(ctx context.Context, late <-chan time.Time, v *Verified) error

var errIgnored = errors.New("the event is not declared")

// NewWebhookReceiver makes a receiver without routes.
func NewWebhookReceiver(opts *WebhookOptions) *WebhookReceiver {
	r := &WebhookReceiver{routes: map[string]*route{}}
	if opts != nil {
		r.opts = *opts
	}
	r.problem = r.opts.normal()
	return r
}

// normal fills in the defaults, and reports a mistake.
func (o *WebhookOptions) normal() error {
	var problem error
	if o.MaxBody < 0 || o.InFlight < 0 || o.Wait < 0 {
		problem = invalid("an option of the webhook receiver is negative").WithHint("Use 0 for the default of MaxBody, InFlight and Wait.")
	}
	if o.MaxBody <= 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.InFlight <= 0 {
		o.InFlight = defaultInFlight
	}
	if o.Wait <= 0 {
		o.Wait = defaultWait
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return problem
}

// Source adds a route and returns the connection that its deliveries are events
// of. The route is the whole path of the request as the receiver sees it; no
// pattern, and no trailing slash. A body that names no type is an event of the
// one type that is declared, if there is one. Routes may be added while the
// receiver serves.
//
// Mistakes are CONNECTION_INVALID errors of the source's Check: a route that is
// no path or that is taken, a verifier that is missing or has no usable secret,
// those of [NewSource]. Nothing is accepted for such a source. Secrets are
// registered for redaction when the source is connected.
func (r *WebhookReceiver) Source(route string, v Verifier, events ...EventType) *Source {
	s := NewSource(events, nil)
	s.instance = "webhook " + route
	if holder, ok := v.(SecretHolder); ok {
		s.secrets = holder.Secrets()
	}
	for _, err := range []error{r.problem, checkVerifier(v)} {
		if err != nil {
			s.problem = first(err, s.problem)
		}
	}
	if s.problem == nil {
		s.problem = r.register(route, v, s.receive)
	}
	return s
}

func checkVerifier(v Verifier) error {
	if v == nil {
		return invalid("the webhook has no verifier").WithHint("Pass triggers.StandardWebhooks(secret) or another verifier.")
	}
	if c, ok := v.(provider.Checker); ok {
		return c.Check()
	}
	return nil
}

// register adds a route whose deliveries go to a sink.
func (r *WebhookReceiver) register(at string, v Verifier, to sink) error {
	if !strings.HasPrefix(at, "/") || path.Clean(at) != at || strings.ContainsAny(at, "?#") {
		return invalid("route %s is no path", fault.Quote(at)).WithHint("Write it as in \"/hooks/deploys\": a slash first, none at the end, no host and no query.")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.routes[at] != nil {
		return invalid("route %s is taken", fault.Quote(at)).WithHint("Give each webhook source a route of its own.")
	}
	r.routes[at] = &route{path: at, verifier: v, sink: to}
	return nil
}

func (r *WebhookReceiver) route(at string) *route {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.routes[at]
}

// receive is the sink of a source.
func (s *Source) receive(ctx context.Context, late <-chan time.Time, v *Verified) error {
	event := v.Type
	if event == "" && len(s.events) == 1 {
		event = s.events[0].Name
	}
	if event == "" {
		return RefusedFormat
	}
	if _, ok := s.declared(event); !ok {
		return errIgnored
	}
	return s.emit(ctx, late, Emission{Type: event, ID: v.ID, Payload: v.Payload, Time: v.Time})
}
