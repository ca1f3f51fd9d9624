package triggers

// spares are goroutines that wait for more to do. A new one costs little by itself,
// but its stack grows again and again while it works, which takes longer than
// anything else on the way from an event to its turn. All methods are safe for
// concurrent use.
type spares[T any] struct {
	room chan struct{} // has a token for each that waits
	work chan T
}

func newSpares[T any](most int) *spares[T] {
	return &spares[T]{room: make(chan struct{}, most), work: make(chan T)}
}

// take has one of them do something, and reports whether one was there.
func (s *spares[T]) take(work T) bool {
	select {
	case s.work <- work:
		return true
	default:
		return false
	}
}

// wait makes the caller one of them. It returns what to do; ok is false if it need
// not wait, since enough do or over is closed.
func (s *spares[T]) wait(over <-chan struct{}) (work T, ok bool) {
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		return work, false
	}
	select {
	case work = <-s.work:
		return work, true
	case <-over:
		return work, false
	}
}
