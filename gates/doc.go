// Package gates is the one way to a peer: every call of an operation, every
// read and every call of a Go tool passes a [Chain], whoever asks for it, a
// model, a step or a document.
//
//	chain := gates.New(&gates.Options{Hooks: []gates.Hook{audit}, Scrubber: scrubber})
//	out := chain.Call(ctx, &gates.Request{
//		Call:    gates.Call{Connection: "notes", Op: "add", Args: args, Source: gates.SourceStep},
//		Catalog: gates.NewCatalog("notes", conn.Manifest()),
//		Policy:  connection.Policy{Deny: []string{"*.delete"}},
//		Send:    conn.Call,
//	})
//
// Most programs meet this package only to write a [Hook]; a harness does the
// rest.
//
// # The way out
//
// Gates are asked in order, and the first that refuses ends the call with
// nothing sent. [Outcome.Gate] names it.
//
//	exists   the connection offers it                      op_unknown
//	schema   the arguments are sound JSON and fit          args_invalid
//	refs     references belong here (none are defined yet)
//	policy   the host lets it through                      steering_denied
//	hooks    the application's own checks                  steering_denied
//
// Then [Request.Before] runs, which writes down that the call is about to be
// sent; then secrets are filled in (there are no placeholders yet); then the
// call is sent.
//
// Arguments are checked as they are given: nothing is defaulted, converted or
// dropped. What hooks see and what is sent are the same bytes, in the canonical
// form of RFC 8785. In two points it differs from the RFC for safety's sake:
// integers keep all their digits, and numbers beyond the range of a double are
// refused. Refused are also repeated property names, invalid UTF-8, nesting
// deeper than 64 levels, and anything but an object.
//
// A call that needs an approval is refused, since there is no way to ask
// anybody in this version.
//
// # The way back
//
// Results, errors, progress and events come back through the same stages: the
// result is checked against its schema, credentials are replaced, and what is
// longer than [Options.MaxResult] is cut with a notice. Nothing is logged or
// reported before credentials are replaced. Identities, cursors and ids pass
// unchanged, since they are compared.
//
// # Errors
//
// Outcome.Err is a *fault.Error with the connection and the operation. What a
// provider returns keeps its code if it says what may have happened; everything
// else, a panic included, is outcome_unknown. The context's error stays visible
// to errors.Is. Findings of args_invalid and result_invalid name fields and what
// was expected, and never show a value.
//
// # Concurrency
//
// A [Chain], a [Catalog] and a [Schema] may be used by any number of callers.
// Nothing here starts a goroutine.
package gates
