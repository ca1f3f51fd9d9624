// Package triggercrash kills a harness that answers webhooks, again and again, and
// looks whether each event that was accepted led to one execution whose effect
// happened once, in the order of its thread. The sender, and the MCP server that
// acts, live in the test's own process and outlive the kills.
//
// It sends 500 events; with BRIDLE_LONG=1 it sends 5,000, and with
// BRIDLE_CRASH_EVENTS=n n. It holds tests only.
package triggercrash
