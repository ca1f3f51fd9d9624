package harness

import (
	"context"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/store"
)

// storeLimit is how long New waits for its store, which others may hold.
const storeLimit = 30 * time.Second

// equip makes the chain of gates out of what the configuration hands in.
func (h *AgentHarness) equip() error {
	c := h.config
	if h.store = c.Store; h.store == nil {
		h.store, h.ownStore = store.Memory(), true
	}
	// New has no context: what it reads is one small record.
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	keys, err := refs.OpenKeys(ctx, h.store)
	if err != nil {
		return fault.From(err, fault.StoreFailed)
	}
	blobs := c.Blobs
	if blobs == nil {
		blobs = refs.StoreBlobs(h.store, nil)
	}
	if h.blobs = blobs; h.ownStore {
		h.blobs = newOwnedBlobs(blobs)
	} else if h.ledger, err = ledger.Open(ctx, h.store); err != nil {
		return fault.From(err, fault.StoreFailed)
	}
	h.aliases, h.pins = refs.OpenAliases(h.store), gates.OpenPins(h.store)
	h.approvals = gates.NewApprovals(h.store, &gates.ApprovalsOptions{Scrubber: h.scrubber})
	opts := gates.Options{
		Hooks: c.Hooks, Scrubber: h.scrubber, Secrets: c.Secrets, Keys: keys, Aliases: h.aliases, Blobs: h.blobs,
		Approver: c.Approver, ApprovalTimeout: c.ApprovalTimeout, Pins: h.pins, Meter: c.Meter, Audit: c.Audit, Logger: h.log,
	}
	if c.Approver != nil {
		opts.Approvals = h.approvals
	}
	h.chain = gates.New(&opts)
	return h.openInbox(ctx)
}

// Approvals is the book of what waits for an approval and what was decided. It
// is kept in the store, so that another process on the same store may decide.
func (h *AgentHarness) Approvals() *gates.Approvals { return h.approvals }

// Pins are the definitions that operations are held to.
func (h *AgentHarness) Pins() *gates.Pins { return h.pins }
