package triggers

import (
	"context"

	"github.com/bridle-dev/bridle/provider"
)

// release lets go of what was put away for executions that will not be. Nobody needs
// it, so that what fails costs room and nothing else.
func (i *Inbox) release(ctx context.Context, all ...provider.ExecutionID) {
	if i.config.Release == nil {
		return
	}
	for _, id := range all {
		var err error
		func() {
			defer contained("letting go of what was put away for an event", &err)
			err = i.config.Release(ctx, id)
		}()
		if err != nil && ctx.Err() == nil {
			i.warn(nil, "what was put away for an event that is gone could not be removed", err)
		}
	}
}

// unstored are the executions of items that were not stored and have something put
// away.
func unstored(all []arrival) (ids []provider.ExecutionID) {
	for _, a := range all {
		for n := range a.items {
			if it := &a.items[n]; !it.stored && it.message.Kept {
				ids = append(ids, it.message.Execution)
			}
		}
	}
	return ids
}
