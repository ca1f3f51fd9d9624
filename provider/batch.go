package provider

import "iter"

// Batcher is an optional ability of a [Subscription]: it hands over many events
// at once, so that whoever stores them needs one commit for all. It is found by
// asking whether the Subscription that Listen returned also implements it.
type Batcher interface {
	// Batches yields what Events would, in the same order and with the same end,
	// some events at a time: those that waited when the batch was asked for. No
	// batch is empty, and none has more than [MaxBatch] events. Asking for the
	// next one means that all of the last are stored; breaking off means that
	// none of the last is. It is used instead of Events: a subscription is read
	// once, in one of the two ways. The reader owns the slice.
	Batches() iter.Seq2[[]Event, error]
}

// MaxBatch is the most events in one batch: enough to make a commit cheap for
// each of them, and few enough to hold in memory.
const MaxBatch = 256
