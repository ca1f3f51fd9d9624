package anthropic

import (
	"context"
	"iter"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/service"
)

// Config says which model to ask, and how.
type Config struct {
	// Model is the service's name for the model. Required.
	Model string
	// APIKey is the credential, sent to no other host than BaseURL's and named
	// in no error. It may be empty only if BaseURL is set.
	APIKey string
	// BaseURL is where the service is, without /v1/messages. Default: Anthropic's.
	// It holds no user, password or query.
	BaseURL string
	// HTTPClient sends the requests. Default: http.DefaultClient. It is copied,
	// and the copy follows no redirects. A Timeout would cut long answers.
	HTTPClient *http.Client
	// MaxTokens bounds a reply whose request does not say. 0 is 16384, which is
	// less than what current models allow; the service requires a bound.
	MaxTokens int
	// Thinking says whether the model reasons before it answers. The zero value
	// leaves it to the service.
	Thinking Thinking
	// ThinkingBudget turns on reasoning of at most this many tokens, for models
	// that want a number; the service asks for 1024 or more, and for less than
	// the reply's bound. It excludes Thinking.
	ThinkingBudget int
	// Cache has the service cache the conversation so far, which makes the next
	// round cheaper and this one somewhat dearer. Default: no.
	Cache bool
	// Betas are the names of beta features to turn on, for the anthropic-beta
	// header.
	Betas []string
}

// Thinking is a way to reason.
type Thinking string

// The ways. Others that the service knows can be written as they are spelled.
const (
	ThinkingDefault  Thinking = ""         // as the model does by itself
	ThinkingAdaptive Thinking = "adaptive" // as long as the model sees fit, shown as a summary
	ThinkingOff      Thinking = "disabled" // not at all
)

const defaultMaxTokens = 16384

// Model asks one of Anthropic's models. It is safe for concurrent use and
// holds nothing that needs closing.
type Model struct {
	config  Config // without the key
	client  sdk.Client
	service *service.Service
}

var _ model.Model = (*Model)(nil)

// New makes a Model. It sends nothing. A configuration that lacks something or
// contradicts itself is a MODEL_INVALID error.
func New(cfg Config) (*Model, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	m := &Model{config: cfg, service: service.New(cfg.APIKey)}
	m.config.APIKey = ""
	m.config.Betas = append([]string(nil), cfg.Betas...)
	if m.config.MaxTokens == 0 {
		m.config.MaxTokens = defaultMaxTokens
	}
	opts := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithoutOpenTelemetry(),
		option.WithHTTPClient(service.Client(cfg.HTTPClient)),
		option.WithMaxRetries(0),
		option.WithMiddleware(m.service.Screen),
	}
	if cfg.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(cfg.BaseURL))
	}
	if cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(cfg.APIKey))
	}
	if len(cfg.Betas) > 0 {
		opts = append(opts, option.WithHeader("anthropic-beta", strings.Join(cfg.Betas, ",")))
	}
	m.client = sdk.NewClient(opts...)
	return m, nil
}

func (cfg Config) check() error {
	invalid := func(format string, args ...any) *fault.Error {
		return fault.New(fault.ModelInvalid, format, args...)
	}
	switch {
	case cfg.Model == "":
		return invalid("Model is empty").WithHint("Set anthropic.Config.Model to the name of a model.")
	case cfg.APIKey == "" && cfg.BaseURL == "":
		return invalid("APIKey is empty").WithHint("Set anthropic.Config.APIKey, for example to os.Getenv(\"ANTHROPIC_API_KEY\").")
	case cfg.MaxTokens < 0 || cfg.ThinkingBudget < 0:
		return invalid("MaxTokens or ThinkingBudget is negative").WithHint("Leave it 0 for the default.")
	case cfg.Thinking != "" && cfg.ThinkingBudget != 0:
		return invalid("Thinking and ThinkingBudget are both set").WithHint("Set one of them.")
	case cfg.BaseURL != "":
		return service.CheckURL(cfg.BaseURL)
	}
	return nil
}

// Stream implements model.Model.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Event, error] {
	post := func(ctx context.Context) (*http.Response, error) {
		params, err := m.params(req)
		if err != nil {
			return nil, err
		}
		var res *http.Response
		err = m.client.Post(ctx, "v1/messages", params, &res, option.WithJSONSet("stream", true),
			option.WithHeader("Accept", "text/event-stream"))
		return res, err
	}
	return m.service.Stream(ctx, post, func() service.Reader { return &reader{} })
}
