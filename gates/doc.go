// Package gates is the one way to a peer: every call of an operation, every
// read and every call of a Go tool passes a [Chain], whoever asks for it, a
// model, a step or a document.
//
//	chain := gates.New(&gates.Options{Hooks: []gates.Hook{quota}, Scrubber: scrubber, Secrets: resolver, Keys: keys})
//	out := chain.Call(ctx, &gates.Request{
//		Call: gates.Call{Connection: "notes", Op: "add", Args: args, Source: gates.SourceStep, Thread: thread},
//		Target: gates.Target{
//			Catalog: gates.NewCatalog("notes", conn.Manifest()),
//			Policy:  connection.Policy{Deny: []string{"*.delete"}},
//			Send:    conn.Call,
//		},
//	})
//
// Most programs meet this package to write a [Hook] or an [Approver], to decide
// about [Approvals], or to configure an [Audit] and a [Budget]; a harness does
// the rest.
//
// # The way out
//
// Gates are asked in order, and the first that refuses ends the call with
// nothing sent. [Outcome.Gate] names it.
//
//	exists    the connection offers it, defined as it was pinned  op_unknown, op_changed
//	schema    the arguments are sound JSON and fit                args_invalid
//	refs      references were issued here and still hold          ref_invalid
//	policy    the host lets it through                            steering_denied
//	hooks     the application's own checks                        steering_denied
//	budget    there is enough left for it                         budget_exceeded
//	approval  somebody agreed, if the policy wants that           steering_denied
//	secrets   secrets and blobs can be had, and fit               secret_unavailable, blob_unavailable, args_invalid
//
// Between the last two, [Request.Before] runs, which writes down that the call
// is about to be sent, and an approval is used up.
//
// Arguments are checked as they are given: nothing is defaulted, converted or
// dropped, unless [Target.Repair] lets arguments of models be mended. Hooks,
// approvers and the audit see the same bytes, in the canonical form of RFC 8785.
// In two points it differs from the RFC for safety's sake: integers keep all
// their digits, and numbers beyond the range of a double are refused. Refused
// are also repeated property names, invalid UTF-8, nesting deeper than 64
// levels, and anything but an object.
//
// # References, secrets and blobs in arguments
//
// What is sent differs from these bytes only where its author or an earlier
// result put something that stands for a value:
//
//	{"$ref": {…, "sig": …}}   a sealed reference: the id that its server knows
//	the same of kind blob     the blob: text as it is, anything else as base64
//	{"$secret": name}         a secret: its value
//
// A reference counts wherever it stands, since it cannot be forged. It also
// decides where the call goes: to the connection that issued it, if the caller
// may use that one, through all gates there. A secret counts only where the
// call's author put it ([Call.Secrets]), or where the host lets models put it
// ([Target.ModelSecrets]); the same object anywhere else is data, and refused in
// arguments of models. Models write a short alias for a reference: the alias
// alone in fields that the schema marks with x-ref, {"$ref": alias} anywhere.
//
// # Approvals
//
// What needs an approval is put to [Options.Approver], after everything that
// could refuse the call, and is denied if nobody decides in time. An approval is
// good for the call it showed and no other. Nobody is asked about arguments that
// cannot fit, whatever a secret or a blob in them comes to. After a yes the checks run once more
// on what is there by then: a policy that was tightened meanwhile wins. Without
// [Options.Approvals] such calls are refused at the policy.
//
// # The way back
//
// Results, errors, progress and events come back through the same stages: the
// result is checked against its schema, credentials are replaced, what the
// schema marks with x-ref is sealed and what it marks with x-blob put away, what
// is longer than [Options.MaxResult] is cut with a notice, and then the call is
// metered and its record written. Nothing is logged or reported before
// credentials are replaced, in ids and identities too; a cursor that holds one is
// left out. References are sealed for the incarnation that answered. A result
// has 100,000 references and 1,000 blobs at most.
//
// # Long results and blobs
//
// A caller gets a result whole, up to [Options.MaxResult]. What a model is shown
// of it is the harness's affair: it keeps the whole with [Chain.Keep] and shows
// the handle. A handle is a sealed reference of kind blob, and stands in
// arguments for what it was made of, so that megabytes go from one server to the
// next past the model.
//
// A sensitive blob is shown to no model, and taken only by fields that the schema
// marks x-blob with sensitive. Bytes that hold a credential are never kept: in
// content a notice stands in their place, and a result that marks them x-blob is
// refused, since the credential would stay in the store.
//
// # Errors
//
// Outcome.Err is a *fault.Error with the connection and the operation. What a
// provider returns keeps its code if it says what may have happened; everything
// else, a panic included, is outcome_unknown. The context's error stays visible
// to errors.Is. Findings of args_invalid and result_invalid name fields and what
// was expected, and never show a value.
//
// Whatever was handed in may panic: on the way out that refuses the call with
// panicked, in a provider the outcome is unknown, on the way back it costs the
// result at most. Each call is metered once, settled with its budget once and
// recorded once, whichever way it ends.
//
// # Concurrency
//
// A [Chain], a [Catalog] and a [Schema] may be used by any number of callers.
// No goroutine outlives the call that started it, except an approver that does
// not return when its context ends.
package gates
