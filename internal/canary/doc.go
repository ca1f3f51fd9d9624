// Package canary holds a test and nothing else: it plants a secret of its own in
// every place that secrets come from or are said at, runs a busy scenario with
// real servers, and then looks for every one of them, in every form, wherever
// something leaves a harness.
//
// sources and sinks are tables. Whoever adds a way in or a way out of the
// library adds a row.
package canary
