// Package repotest holds the rules of this repository as tests, so that
// go test ./... is the whole check: which package may import which, that
// everything exported is documented, that public packages have examples, what
// code must not contain, which dependencies have a reason, and that the README
// shows code that runs.
//
// A finding names the place, the rule's reason and what to do. Where a rule
// and good code disagree, most rules give way to a comment on the line or the
// line above: //allow:<rule> <reason>. The rules that do are sleep, errtext,
// var and hmac.
package repotest
