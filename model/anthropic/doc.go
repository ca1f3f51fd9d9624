// Package anthropic is the model adapter for Anthropic's Messages API, on
// Anthropic's own SDK, and for services that speak the same protocol.
//
//	m, err := anthropic.New(anthropic.Config{
//		Model:  "claude-sonnet-4-5",
//		APIKey: os.Getenv("ANTHROPIC_API_KEY"),
//	})
//	…
//	h, err := harness.New(harness.Config{Model: m, …})
//
// Nothing is read from the environment or from files: what Config does not say
// is not known.
//
// # What is sent
//
// Instructions and the system and developer messages that open the
// conversation become the system prompt; later ones are user text between
// <developer> tags, as not every model takes a system message there. Messages
// of one side that follow each other are joined, tool results first. Blank text
// is left out. Arguments that are no JSON object go back as the object
// {"arguments": …}. Call ids are written with the characters that the service
// allows. Reasoning goes back only if this adapter received it.
// Connection events are for steps and are not sent.
//
// Images (data or URL) and files (PDF as data or URL, text as data) may stand in
// user messages and in tool results. A structured answer is asked for with
// output_config.format, and Params.Effort is output_config.effort.
// Params.Seed is refused, as the service has none.
//
// # Errors
//
// model_rate_limit is 429, 503, 529 and the same problems in the middle of a
// stream; model_rejected is every other 3xx and 4xx, an account without money,
// and a request that cannot be written for this service; model_failed is the
// rest, a cut stream above all. PeerCode is the service's word. The SDK's own
// retries are off.
//
// # Tokens
//
// Usage.Input is the sum of the uncached tokens, those written to the cache and
// those read from it; CachedInput is the latter.
package anthropic
