// Package crash holds the crash harness as a test: a process that runs a
// workflow is ended by SIGKILL at every store write, send and receive in turn,
// and the next one has to come to the same end without doing again what was done.
//
// The peer that the workflow acts on lives in the test's own process, so that it
// outlives the kill, and keeps a record of its own of what was done to it. The
// workflow runs in a child, which is the test binary started again. What the
// child may do again is judged by the record that the kill left in the store.
//
// It runs 40 kills; with BRIDLE_LONG=1 it runs 200, and with BRIDLE_CRASH=n n.
package crash
