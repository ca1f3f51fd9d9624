package triggers

import "github.com/bridle-dev/bridle/fault"

// contained makes an error of a panic in what the application handed in.
func contained(what string, err *error) {
	if r := recover(); r != nil {
		*err = fault.New(fault.Panicked, "%s panicked: %v", what, r)
	}
}

// apart is contained for what must come to something even if it ends its goroutine,
// as testing's FailNow does: it has one of its own.
func apart(what string, f func() error) error {
	err := vanished(what)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer contained(what, &err)
		err = f()
	}()
	<-done
	return err
}

// vanished is the error of what ended its goroutine.
func vanished(what string) error {
	return fault.New(fault.Panicked, "%s ended its goroutine without returning", what).
		WithHint("Do not call runtime.Goexit, or testing's FailNow, in it.")
}
