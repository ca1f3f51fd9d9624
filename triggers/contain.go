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
func (i *Inbox) apart(what string, f func() error) (err error) {
	came, done := false, make(chan struct{})
	job := func() {
		defer close(done)
		err = containing(what, f)
		came = true
	}
	if !i.helpers.take(job) {
		i.help(job)
	}
	if <-done; !came {
		return vanished(what)
	}
	return err
}

func containing(what string, f func() error) (err error) {
	defer contained(what, &err)
	return f()
}

// help does a job, and those that come until there are helpers enough, the inbox
// stops, or one ends the goroutine.
func (i *Inbox) help(job func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.state != inboxStarted {
		go job() // whoever asked waits for it
		return
	}
	i.work.Go(func() {
		for more := true; more; job, more = i.helpers.wait(i.pumping.Done()) {
			job()
		}
	})
}

// vanished is the error of what ended its goroutine.
func vanished(what string) error {
	return fault.New(fault.Panicked, "%s ended its goroutine without returning", what).
		WithHint("Do not call runtime.Goexit, or testing's FailNow, in it.")
}
