// Package openai is the model adapter for OpenAI's APIs, on OpenAI's own SDK,
// and for the many services that speak the Chat Completions protocol.
//
//	m, err := openai.New(openai.Config{Model: "gpt-5", APIKey: os.Getenv("OPENAI_API_KEY")})
//
//	local, err := openai.New(openai.Config{Model: "qwen3", BaseURL: "http://127.0.0.1:11434/v1"})
//
// Nothing is read from the environment: what Config does not say is not known.
//
// # Two APIs
//
// [Chat], the zero value, is what compatible services offer. [Responses] is
// OpenAI's newer one: it takes reasoning back between rounds (encrypted, as
// nothing is stored with the service), images in tool results, and files by
// URL, but has neither stop texts nor a seed. What the chosen API cannot say is
// a model_rejected error before anything is sent, except that Chat drops
// reasoning, and moves images in tool results to a user message behind them.
//
// # What is sent
//
// Chat: system and developer messages are both sent as system messages, which
// OpenAI treats as developer ones and which compatible services know; what one
// side says in a row becomes one message where the protocol pairs it with
// calls. Tool results have no error flag in either API, so failed ones begin
// with "Error: ". Arguments go back exactly as the model wrote them. Connection
// events are for steps and are not sent. A structured answer is asked for with
// a strict json_schema where the schema fits OpenAI's strict subset (every
// object closed, every property required), and with a lenient one otherwise.
//
// # Errors
//
// model_rate_limit is 429, 503 and 529; model_rejected is every other 3xx and
// 4xx, and an account without money, which OpenAI answers with 429 and
// insufficient_quota; model_failed is the rest, a cut stream above all.
// PeerCode is the service's word. The SDK's own retries are off.
package openai
