// Package scripted is a model that answers from a script, without a key or a
// network: for examples, and for tests of what an application does around a
// model.
//
//	m := scripted.New(
//		scripted.CallTool("notes_add", map[string]any{"text": "hello"}),
//		scripted.Say("Done."),
//	)
//
// Each request takes the next [Round], whatever it says; [Respond] looks at the
// request. [Model.Requests] tells a test what the model was told. Text arrives
// word by word, and tool calls are numbered call_1, call_2, … in the order in
// which they are made.
//
// A script ends. For a program that goes on, such as one whose turns triggers
// start, implement [model.Model]: it is one method, and package model has one that
// answers for ever.
//
// # Errors
//
// A request after the last round is a model_rejected error that says which round
// is missing: asking again does not help. [Fail] ends a round with an error of
// choice, and the end of ctx ends one with ctx's error.
package scripted
