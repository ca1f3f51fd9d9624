// Package triggers has agents start by themselves: each event that a [Trigger]
// listens for becomes one execution, across crashes, restarts and downtime.
package triggers
