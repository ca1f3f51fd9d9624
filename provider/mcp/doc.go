// Package mcp makes connections to MCP servers: child processes that speak
// over standard input and output, HTTP endpoints, and servers that live in this
// process. Tools become operations and resources become reads; names, schemas
// and results are the server's own, byte for byte.
//
//	notes := mcp.Command("notes-server", "--dir", "/srv/notes")
//	weather := mcp.HTTP("https://weather.example/mcp", &mcp.HTTPOptions{
//		Headers: []mcp.Header{{Name: "Authorization", Value: "Bearer " + token}},
//	})
//	clock := mcp.InMemory(server, nil)         // a server made with the MCP SDK
//	others, err := mcp.FromConfig(".mcp.json") // as other clients write it
//
// # Eras
//
// Both protocol eras work: servers of revision 2026-07-28, which know no
// sessions, and earlier ones, which open with initialize. Each Connect asks
// the server which it is, so one that was upgraded is noticed. Only the server's
// own answer decides: a 5xx, 401, 429 or cut connection fails Connect. A child
// that is silent about the question, or ends at it, is started again in the
// earlier way, which is remembered until it gives another name or version.
//
// A session that the server forgot closes the connection; it is not opened
// again in place, because a new session is a new thing with a state, and
// perhaps operations, of its own.
//
// # Operations and reads
//
// A tool's annotations become hints and are nil where the server said nothing.
// A resource is a read named by its URI. A resource template is a read named
// by the template, with the variables as its arguments. Lists are fetched page
// by page when the connection is made, and again when the server announces a
// change; what was left out or mended is in [provider.Manifest].Notes. A
// subscription that ends is asked for again, and the lists are fetched after it.
//
// A server may declare profiles (capability "tools.noetic/connection"). Of those
// that [provider.ConnectOptions].Profiles defines in exactly that version,
// operations have the facts: the host's word, never the server's.
//
// # Servers that ask
//
// A server may ask a person while it works on a call, with a form or by sending
// them to a URL (MCP, "Elicitation"), if [provider.ConnectOptions].Ask is set.
// Without it nothing is declared that a server could ask for, and one that asks
// all the same is answered at once with a decline. One that asks for roots gets
// none, and one that asks for a model's help fails the call.
//
// Fields that an answer leaves out get the form's defaults (SEP-1034), and the
// whole is checked against the form. If it does not fit, or Ask fails or panics,
// the server is told that nobody decided, and the log why. A question that is no
// flat form of plain fields, names no http or https URL or is longer than 64 KiB
// is refused before anyone sees it: a modern server's call fails then. Message
// and URL are passed on as they are, and no URL is ever opened.
//
// The context of Ask ends when nobody waits for the answer any more: with the
// call or the connection, or when the server withdraws the question. A server of
// the earlier era may ask at any time, also about no call. Over a child's output
// it does not say which call a question is about: Question.Op is empty then, and
// the question ends once all calls have ended that were under way when it came,
// if one of them was given up. At most 16 questions wait at the same time; for
// one more the server is told that nobody decided.
//
// While a question waits, the Timeout and IdleTimeout of the calls that it may be
// about stand still. In the modern era, where a call is sent again with the
// answers, they begin anew with each of the at most ten times.
//
// # Errors
//
// A tool's own failure and a JSON-RPC error are [fault.OpFailed]; the latter
// carries its number as PeerCode. A request of which no byte has left is
// [fault.NotSent], one that may have arrived and has no readable answer is
// [fault.OutcomeUnknown], as is one cut by Timeout or IdleTimeout, which is
// [fault.Timeout] too. A connection that could not be made is
// [fault.Unavailable], a mistake in the options [fault.ConnectionInvalid].
//
// Nothing that may have had an effect is repeated, and nothing is reconnected:
// when Done closes, connect again. A call is sent once more only where the
// protocol says that the server has not acted: with the input it asked for, or
// with the headers it missed. An answer whose stream broke off is taken up again
// by its event id, which asks for the rest of it and not for the call.
//
// # Processes
//
// A child and its descendants share a process group, which is ended with the
// connection. If this process is killed, a child ends with its input, unless it
// ignores that; such ones carry BRIDLE_OWNER in their environment: random text
// of the provider value, a colon and the pid of this process.
//
// # Credentials
//
// Environment values, header values and the user information and query values
// of URLs are registered for redaction before they are used and appear in no
// error. They go to the configured server only: a child process gets no
// variables beyond a short list and what was declared, and headers never
// follow a redirect to another origin.
package mcp
