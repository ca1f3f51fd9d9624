// Package triggers has agents start by themselves: each event that a [Trigger]
// listens for leads to one execution, across crashes, restarts and downtime.
//
// An event comes from a connection of the harness. [Cron] is one, a [Source] of Go
// code is, so is a route of a [WebhookReceiver], and any MCP server that has
// events:
//
//	hooks := triggers.NewWebhookReceiver(nil)
//	deploys := hooks.Source("/hooks/deploys", triggers.StandardWebhooks(secret), triggers.Declare[DeployFailed]("deploy.failed"))
//	h, err := harness.New(harness.Config{
//		Store:       db,
//		Connections: connection.Set{"deploys": {Provider: deploys}, "morning": {Provider: triggers.Cron("0 8 * * *", nil)}},
//		Triggers: []triggers.Trigger{
//			{ID: "daily", Connection: "morning", Event: triggers.Tick, Input: triggers.Say("Write the daily summary.")},
//			{ID: "failed", Connection: "deploys", Event: "deploy.failed", Input: triggers.Of(func(d DeployFailed) string { return d.Service + " failed" })},
//		},
//	})
//
// # What becomes of an event
//
// It is checked against its schema and credentials in it are replaced; then the
// trigger's Filter and Thread are asked. The event, the id of its execution, its
// place in its thread and the source's new cursor are stored in one transaction,
// and only then is the source asked for more. From there the event is pending,
// running, and done or dead: attempted some times, in the order of its thread,
// beside those of other threads. docs/triggers.md has the diagram, what "once"
// means here, and what becomes of bad input.
//
// # Sources
//
// [NewSource] makes a connection out of code: a Start function that watches
// something, with the last cursor that was stored, or [Source.Emit] from anywhere
// in the program, which returns once the event is durable. Payloads are checked
// against the schema of the Go type given to [Declare].
//
// # Webhooks
//
// A [WebhookReceiver] is an http.Handler. It answers 2xx only after the event is
// durable. Signatures are a [Verifier]: [StandardWebhooks], [GitHub], [Slack],
// [Stripe], or one of your own. docs/webhooks.md says what senders are told.
//
// # Schedules
//
// [Cron] has one event, [Tick], exactly once for each instant of its schedule, also
// when the local clock changes; what was missed while nothing ran is caught up as
// [CronOptions] say. All schedules of a harness share one timer.
//
// # The inbox
//
// [Inbox], [InboxConfig], [Delivery] and [Message] are what a harness keeps events
// in; a program meets them as status, and to retry or drop what is dead. Everything
// else here is for programs.
//
// # Errors
//
// Mistakes in triggers are HARNESS_INVALID and those in sources and schedules
// CONNECTION_INVALID, when the harness is made. What goes wrong with one event is
// kept with it and told as an event of package event: inbox_dead, inbox_retried or
// warning. Functions of a trigger may fail and panic; that costs their event only.
//
// # Concurrency
//
// Filter, Input and Thread are called concurrently. Sources, receivers and inboxes
// may be used concurrently.
package triggers
