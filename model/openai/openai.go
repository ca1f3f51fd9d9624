package openai

import (
	"context"
	"iter"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/model/internal/service"
)

// Config says which model to ask, and how.
type Config struct {
	// Model is the service's name for the model. Required.
	Model string
	// API is the protocol. The zero value is Chat.
	API API
	// APIKey is the credential, sent to no other host than BaseURL's and named
	// in no error. It may be empty only if BaseURL is set.
	APIKey string
	// BaseURL is where the service is, usually with /v1 at its end. Default:
	// OpenAI's. It holds no user, password or query.
	BaseURL string
	// HTTPClient sends the requests. Default: http.DefaultClient. It is copied,
	// and the copy follows no redirects. A Timeout would cut long answers.
	HTTPClient *http.Client
	// MaxTokens bounds a reply whose request does not say. 0 leaves it to the
	// service.
	MaxTokens int
	// LegacyMaxTokens has Chat send the bound as max_tokens, for compatible
	// services that do not know max_completion_tokens.
	LegacyMaxTokens bool
	// ReasoningSummary asks Responses for summaries of the model's reasoning:
	// "auto", "concise" or "detailed". Default: none, as not every account may.
	ReasoningSummary string
	// Organization and Project are the ids to bill. Default: those of the key.
	Organization, Project string
}

// API is one of OpenAI's protocols.
type API string

// The protocols.
const (
	Chat      API = "" // Chat Completions
	Responses API = "responses"
)

// Model asks one of OpenAI's models, or one behind a compatible service. It is
// safe for concurrent use and holds nothing that needs closing.
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
	// The options are set on the client itself, as the SDK's constructor reads
	// the environment.
	m.client.Options = []option.RequestOption{
		option.WithEnvironmentProduction(),
		option.WithHTTPClient(service.Client(cfg.HTTPClient)),
		option.WithMaxRetries(0),
		option.WithMiddleware(m.service.Screen),
	}
	add := func(value string, opt func(string) option.RequestOption) {
		if value != "" {
			m.client.Options = append(m.client.Options, opt(value))
		}
	}
	add(cfg.BaseURL, option.WithBaseURL)
	add(cfg.Organization, option.WithOrganization)
	add(cfg.Project, option.WithProject)
	add(cfg.APIKey, func(key string) option.RequestOption { return option.WithHeader("Authorization", "Bearer "+key) })
	return m, nil
}

func (cfg Config) check() error {
	invalid := func(format string, args ...any) *fault.Error {
		return fault.New(fault.ModelInvalid, format, args...)
	}
	switch {
	case cfg.Model == "":
		return invalid("Model is empty").WithHint("Set openai.Config.Model to the name of a model.")
	case cfg.API != Chat && cfg.API != Responses:
		return invalid("API %s is unknown", fault.Quote(string(cfg.API))).WithHint("Use openai.Chat or openai.Responses.")
	case cfg.APIKey == "" && cfg.BaseURL == "":
		return invalid("APIKey is empty").WithHint("Set openai.Config.APIKey, for example to os.Getenv(\"OPENAI_API_KEY\").")
	case cfg.MaxTokens < 0:
		return invalid("MaxTokens is negative").WithHint("Leave it 0 for the service's default.")
	case cfg.API == Chat && cfg.ReasoningSummary != "":
		return invalid("ReasoningSummary is set, which Chat has not").WithHint("Set API to openai.Responses.")
	case cfg.API == Responses && cfg.LegacyMaxTokens:
		return invalid("LegacyMaxTokens is set, which is for Chat").WithHint("Leave it false.")
	case cfg.BaseURL != "":
		return service.CheckURL(cfg.BaseURL)
	}
	return nil
}

// Stream implements model.Model.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Event, error] {
	if m.config.API == Responses {
		return m.service.Stream(ctx, func(ctx context.Context) (*http.Response, error) {
			params, err := m.responseParams(req)
			return m.post(ctx, "responses", params, err)
		}, func() service.Reader { return newResponseReader() })
	}
	return m.service.Stream(ctx, func(ctx context.Context) (*http.Response, error) {
		params, err := m.chatParams(req)
		return m.post(ctx, "chat/completions", params, err)
	}, func() service.Reader { return &chatReader{} })
}

// post sends a request, unless it could not be written.
func (m *Model) post(ctx context.Context, path string, params any, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	var res *http.Response
	err = m.client.Post(ctx, path, params, &res, option.WithJSONSet("stream", true),
		option.WithHeader("Accept", "text/event-stream"))
	return res, err
}

func cannot(what, instead string) error {
	return fault.New(fault.ModelRejected, "this API has no %s", what).WithHint("%s", instead)
}
