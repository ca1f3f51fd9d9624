package steps

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/bridle-dev/bridle/fault"
)

// contain calls f, which runs code of the application, and turns a panic into
// an error.
func contain[T any](f func() (T, error)) (out T, err error) {
	defer func() {
		if v := recover(); v != nil {
			var none T
			out, err = none, panicked(v)
		}
	}()
	return f()
}

// panicked describes a recovered panic. It is called by the deferred function.
func panicked(v any) *fault.Error {
	e := fault.New(fault.Panicked, "panic: %s", quote(fmt.Sprint(v)))
	if at := panicSite(); at != "" {
		return e.WithHint("The panic came from %s.", at)
	}
	return e
}

// quote is fault.Quote for texts in which credentials have not been replaced yet:
// it cuts them only where nobody reads on, since a part of one cannot be found.
func quote(text string) string {
	const limit = 4 << 10
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return strconv.Quote(text)
}

// panicSite finds the line that panicked: the first one that is not the Go
// runtime's, above the runtime's handling of the panic.
func panicSite() string {
	const depth = 32 // a panic starts a few frames above its recovery
	pcs := make([]uintptr, depth)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	unwinding := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			unwinding = true
		case unwinding && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}

// exited is the outcome of a path whose goroutine ended without returning.
func exited() error {
	return fault.New(fault.Panicked, "the goroutine ended without returning").
		WithHint("Do not call runtime.Goexit, or testing's FailNow, in a parallel step.")
}
