package harness

import "context"

// cutTurns has what waits on threads wait for turns of events that the last process
// left there: those were running before.
func (in *inbound) cutTurns(threads []ThreadID) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.cut = map[ThreadID]chan struct{}{}
	for _, id := range threads {
		in.cut[id] = make(chan struct{})
	}
}

// pass lets a thread go on: the turn that was cut there is in its queue, or does not
// come now.
func (in *inbound) pass(thread ThreadID) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if cut, waits := in.cut[thread]; waits {
		close(cut)
		delete(in.cut, thread)
	}
}

// passAll lets all threads go on, as no event comes any more.
func (in *inbound) passAll() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, cut := range in.cut {
		close(cut)
	}
	clear(in.cut)
}

// wait returns when a thread may go on, or ctx ends.
func (in *inbound) wait(ctx context.Context, thread ThreadID) {
	in.mu.Lock()
	cut, waits := in.cut[thread]
	in.mu.Unlock()
	if !waits {
		return
	}
	select {
	case <-cut:
	case <-ctx.Done():
	}
}
