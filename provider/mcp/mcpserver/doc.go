// Package mcpserver is a kit for people who write MCP servers with the MCP SDK
// and want hosts to rely on them: a repeated call acts once, a reference can be
// sealed, a dangerous target waits for an approval, and a server never looks
// harmless because somebody forgot a field.
//
//	kit := mcpserver.New(server, &mcpserver.Options{Store: db, Profiles: []*provider.Profile{chat}})
//	mcpserver.Add(kit, "chat.post", func(ctx context.Context, c *mcpserver.Call, a PostArgs) (Posted, error) {
//		if a.Channel == "#all" && !c.Approved() {
//			return Posted{}, mcpserver.Guarded("#all", "reaches everyone")
//		}
//		return post(ctx, a, c.Key())
//	})
//	if err := kit.Check(); err != nil {
//		log.Fatal(err)
//	}
//	err := server.Run(ctx, &mcp.StdioTransport{})
//
// The server stays the SDK's and yours: tools and resources may be added to it
// directly, too. Make one Kit for a server and keep it as long as the process.
//
// # Profiles, and what is stated
//
// A profile is a vocabulary that many servers speak. The kit serves its schemas
// word for word, declares it to clients while all that it requires is there, and
// [Kit.Check] names what is missing or does not fit. An operation of no profile
// is described in [Options].Operations, where it must be said whether it is
// destructive: one of which nobody said it is not served at all.
//
// # Keys
//
// An operation that is "once", by its profile or its description, acts once for
// each idempotency key (_meta "tools.noetic/idempotency-key"). The kit writes
// down that it begins, runs the handler, writes down the outcome and only then
// answers; whoever repeats the key, at once or after a restart, gets that first
// answer. Other arguments under the same key are refused. A call without a key
// is made without any promise.
//
// What becomes of a key is decided by how its handler ended:
//
//   - It returned a result: the outcome is kept for [Options].KeepKeys.
//   - It returned [provider.Refused], [provider.NotSent] or [Guarded], which say
//     that nothing happened: the key is forgotten and may be tried again.
//   - It returned any other error, or the process died: nobody can know. The
//     call and every repetition are answered with "outcome unknown".
//
// The doubt goes away if the effect lies in the same store: then make it inside
// [Commit], where effect and outcome are one transaction. Operations of which
// that is all they do, and those that hand [Call.Key] on to something that
// honours it itself, belong in [Options].Repeatable; they are simply run again.
//
// A key belongs to the authenticated user, if the SDK knows one. The kit waits
// for a run of the same key in its own process only; one in another process
// that shares the store is answered with "outcome unknown" meanwhile, and of a
// repeatable one only the first Commit counts.
//
// # Guarded targets
//
// A handler that finds its target too dangerous returns [Guarded]. The host has
// it approved and calls again, and [Call.Approved] is true. A refusal that no
// approval can lift is provider.Refused. The token's presence is all that a
// server can see: it is worth what the client is worth.
//
// # Identity
//
// A server that drives a thing with state, such as a browser, says in
// [Options].Identity which one it is. The kit reports it when a client connects
// and with every result of a tool or a resource, so that a change is noticed.
//
// # References
//
// A field that holds the id of something, an element or a message, is marked for
// hosts to seal with a struct tag, or in the schema of its profile:
//
//	ID string `json:"id" jsonschema_extras:"x-ref=chat.message"`
//	El string `json:"el" jsonschema_extras:"x-ref=element volatile"`
//
// # Results
//
// A result is structured, checked against its schema, and shown to people as its
// JSON, or as what its String method says. [Output] is what a command printed,
// [Cut] shortens a text and says so, [Files] opens paths that must not lead out of a
// directory, and [UnlessGone] is for taking down what may be down already.
//
// # Errors
//
// Mistakes in Options and in what was added are one error of [Kit.Check] with
// [fault.ProviderInvalid], whose issues name each place. Handlers return errors
// as above; an error of an operation that is not once is its failure, whatever
// it is, unless it is provider.Unknown.
//
// # Concurrency
//
// All of it may be used concurrently, except a [Call], which belongs to its
// handler. Handlers run concurrently, but one key has one handler. A handler of
// a once operation goes on while anyone waits for it, not just its first caller.
package mcpserver
