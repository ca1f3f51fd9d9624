// Package secrets gives operations the secrets they need, and keeps them out of
// everything that is logged, stored, shown or told to a model.
//
// A program names a secret by a [Ref], and a [Resolver] has its [Value], which
// is asked for when a call is sent and no sooner. A [Scrubber] knows the values
// in use and replaces them wherever they show up:
//
//	resolver := secrets.First(secrets.Dir("/run/secrets"), secrets.Env("MYAPP_"))
//	v, err := resolver.Resolve(ctx, secrets.Use{Ref: "app.password", Connection: "app", Op: "ui.fill", Field: "/text"})
//
//	s := secrets.NewScrubber()
//	err = s.AddSecret(v)
//	s.String("the server said: bad password " + v.Reveal())
//	// the server said: bad password <redacted>
//
// # Who names a secret
//
// A program does, by the Go type Ref, and nobody else: the JSON of a Ref carries
// a mark under a key of this process, and [Extract] takes only objects with a
// genuine one. The object {"$secret": "name"} in what a model, a peer or a file
// said is data. Extract turns marks into positions before anything leaves the
// program, so that none can be copied from what others see; it is for arguments
// that a program wrote, never for those of a model.
//
// # What is found
//
// Registered values, and nothing that only looks like a secret: a credential
// that a tool found for its user is a result. Within any text, a value is found
//
//   - as it is;
//   - percent-encoded, with capital or small digits and with "+" or "%20" for a
//     space, as the encoders of Go, JavaScript, Python, HTML forms and RFC 3986
//     do it;
//   - inside a JSON string, as the encoders of Go, JavaScript, Python, PHP and
//     .NET escape it, and inside a JSON string within a JSON string;
//   - from eight bytes on, in hexadecimal with capital or small digits;
//   - from eight bytes on, in base64 of either alphabet, padded or not, at any
//     alignment within longer text. Up to two characters at each end, which
//     depend on its neighbours as well, stay.
//
// [Scrubber.JSON] also decodes every string, whatever its escapes, and reads
// strings that hold JSON up to three times over. [Stream] finds what is split
// over the pieces of one text, and [Scrubber.Handler] keeps values out of a log.
//
// # What is not found
//
// Values under four bytes, which [Check] refuses, and credentials under eight
// bytes or that are absolute paths, which [Scrubber.Add] passes over. Values
// that are split over two texts, cut short before they got here, compressed,
// encrypted, in another character set, in hexadecimal of mixed case, or with
// separators between digits. Values in two encodings at once, other than JSON in
// JSON, such as base64 of percent-encoded text. In texts that are not given to
// JSON: escapes that no encoder above writes, such as an "A" by its number.
// Pixels and sound. Binary data is searched by [Scrubber.Bytes] and not edited.
//
// # Errors
//
// Everything that keeps a secret from being used is fault.SecretUnavailable;
// JSON that cannot be read is fault.ArgsInvalid. No error holds a value.
//
// # Concurrency
//
// Everything but Stream and its Writer may be used concurrently.
package secrets
