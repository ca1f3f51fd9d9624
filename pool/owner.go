package pool

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/procs"
	"github.com/bridle-dev/bridle/store"
)

// OwnerConfig describes this process to a store. Store is required.
type OwnerConfig struct {
	// Store keeps the leases. Pools of one store share what they count.
	Store store.Store
	// Emit is told what happens to leases: the lease events, without ID and Time.
	// Errors in them are a provider's and not redacted. It must return quickly and
	// is called concurrently. Nil is nobody.
	Emit func(event.Event)
}

// Owner is this process as the holder of leases in one store.
type Owner struct {
	store store.Store
	emit  func(event.Event)
	self  ownerRecord
}

// Register records this process in the store, so that its successors can tell
// what it left behind. Call it before anything that is to be found is started.
func Register(ctx context.Context, c OwnerConfig) (*Owner, error) {
	if c.Store == nil {
		return nil, fault.New(fault.HarnessInvalid, "owner of leases has no store").WithHint("Set OwnerConfig.Store.")
	}
	o := &Owner{store: c.Store, emit: c.Emit,
		self: ownerRecord{ID: rand.Text(), Place: procs.Here(), Proc: procs.Self()}}
	if o.emit == nil {
		o.emit = func(event.Event) {}
	}
	return o, o.store.Update(ctx, o.enter)
}

// ID names this process in records and events. It is random.
func (o *Owner) ID() string { return o.self.ID }

// enter writes the owner's record.
func (o *Owner) enter(tx store.Tx) error { return put(tx, ownerBucket, o.self.ID, o.self) }

// Close removes the record of this process once all its pools are closed and
// nothing is left of their leases.
func (o *Owner) Close(ctx context.Context) error { return o.forget(ctx, o.self.ID) }

// forget removes an owner that no lease speaks of.
func (o *Owner) forget(ctx context.Context, id string) error {
	return o.store.Update(ctx, func(tx store.Tx) error {
		all, err := records(tx, "")
		if err != nil || mentioned(all, id) {
			return err
		}
		return tx.Delete(ownerBucket, id)
	})
}

// mentioned reports whether an owner has, or made, one of the leases.
func mentioned(all []*record, owner string) bool {
	for _, r := range all {
		if r.Owner == owner || r.Maker == owner {
			return true
		}
	}
	return false
}

// life is what is known of an owner's process.
type life int

const (
	unknown life = iota // on another machine, or not recorded
	alive
	dead
)

// judge tells whether the process of an owner lives. Only the same place can
// tell; of the same machine before its last start nothing lives.
func (o *Owner) judge(other ownerRecord) life {
	here := o.self.Place
	switch {
	case other.ID == o.self.ID:
		return alive
	case other.Place == here && procs.Alive(other.Proc):
		return alive
	case other.Place == here:
		return dead
	case other.Place.Host == here.Host && other.Place.Boot != here.Boot && here.Boot != "":
		return dead
	}
	return unknown
}

// Reap ends what dead owners left in this store and cannot be taken back: the
// instances of their leases, whose room is free then, and on Linux every child
// that carries their mark. What can be taken back waits for [ReclaimAfter], with
// the children that its lease has on record; leases in other stores are not known
// here. Owners that live, or may live on another machine, are
// left alone. Errors are joined; what failed is tried by the next Reap.
func (o *Owner) Reap(ctx context.Context) error {
	known, all, err := o.look(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range all {
		if other, ok := known[r.Owner]; ok && o.judge(other) == dead && (!r.Reattach || r.Ending || r.State == nil) {
			_, err := o.reap(ctx, r, known, "its owner is dead")
			errs = append(errs, err)
		}
	}
	for id := range known {
		errs = append(errs, o.sweep(ctx, id))
	}
	return errors.Join(errs...)
}

func (o *Owner) look(ctx context.Context) (known map[string]ownerRecord, all []*record, err error) {
	err = o.store.View(ctx, func(tx store.Tx) (err error) {
		if known, err = owners(tx); err != nil {
			return err
		}
		all, err = records(tx, "")
		return err
	})
	return known, all, err
}

// reap reclaims a lease without its pool: it ends the processes on its record. It
// reports whether it did, or somebody had touched the lease.
func (o *Owner) reap(ctx context.Context, r *record, known map[string]ownerRecord, why string) (bool, error) {
	taken, err := seize(ctx, o.store, r, o.self.ID, true)
	if taken == nil || err != nil {
		return false, err
	}
	note, err := o.endProcesses(ctx, taken, known)
	if err != nil {
		return false, err
	}
	if ended, err := o.drop(ctx, taken); !ended || err != nil {
		return false, err
	}
	o.reclaimed(r, why, note)
	return true, nil
}

// drop gives the room of a lease back, and reports whether it was ours to give.
func (o *Owner) drop(ctx context.Context, r *record) (bool, error) {
	return change(ctx, o.store, r.key(), r.Fence, remove)
}

// endProcesses ends the recorded processes of a lease. The note says what was
// left alone and why; an error, that something still lives that should not.
func (o *Owner) endProcesses(ctx context.Context, r *record, known map[string]ownerRecord) (note, err error) {
	if len(r.Processes) == 0 {
		return nil, nil
	}
	maker, ok := known[r.Maker]
	switch {
	case ok && o.judge(maker) == dead && maker.Place != o.self.Place:
		return nil, nil // the machine was started anew
	case !ok || maker.Place != o.self.Place:
		return fault.New(fault.Unavailable, "processes on another machine are left to it").At(r.Pool, ""), nil
	}
	var errs []error
	for _, p := range r.Processes {
		switch err := procs.End(ctx, p); {
		case errors.Is(err, procs.ErrNotProven):
			note = fault.New(fault.Unavailable, "process %d is left alone: %w", p.PID, err).At(r.Pool, "")
		case err != nil:
			errs = append(errs, fault.New(fault.Unavailable, "process %d: %w", p.PID, err).At(r.Pool, ""))
		}
	}
	return note, errors.Join(errs...)
}

// sweep ends the marked children of a dead owner, except those that its leases
// have on record, and forgets it once no lease speaks of it. A thing that is made
// has all its children on record.
func (o *Owner) sweep(ctx context.Context, id string) error {
	known, all, err := o.look(ctx)
	other, ok := known[id]
	if err != nil || !ok || o.judge(other) != dead {
		return err
	}
	if other.Place == o.self.Place {
		var spared []procs.Proc
		for _, r := range all {
			spared = append(spared, r.Processes...)
		}
		if _, err := procs.EndMarked(ctx, other.Proc, spared...); err != nil {
			return fault.New(fault.Unavailable, "children of a dead owner: %w", err)
		}
	}
	return o.forget(ctx, id)
}

// reclaimed tells about a lease that was taken from r's owner.
func (o *Owner) reclaimed(r *record, why string, note error) {
	o.emit(event.Event{Type: event.LeaseReclaimed, Connection: r.Pool, Execution: r.Execution, Step: r.Path,
		Text: why, Err: note, Data: map[string]any{"lease": r.ID, "fence": r.Fence, "owner": r.Owner}})
}

// stuck tells about a lease that was taken but whose instance cannot be ended yet.
func (o *Owner) stuck(r *record, err error) {
	o.emit(event.Event{Type: event.Warning, Connection: r.Pool, Execution: r.Execution, Step: r.Path,
		Text: "what nobody holds any more cannot be ended yet; its room stays taken", Err: err})
}
