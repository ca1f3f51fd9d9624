package mcpserver

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// Files is a directory whose files a client may name. Names that lead out of
// it, by "..", by being absolute or through a symbolic link, are refused before
// anything is touched (os.Root). Give each run the directory of its own, not the
// one above all of them.
//
// Errors are provider.Refused with a code that a handler can return as it is:
// "not_found", "escape", "too_large", or "unusable" for the rest.
type Files struct{ root *os.Root }

// OpenFiles opens the directory, which must exist. Close frees it. Its errors
// are those of package os: they are the server's business, not a client's.
func OpenFiles(dir string) (*Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Files{root}, nil
}

// Close frees the directory; files that were opened stay open.
func (f *Files) Close() error { return f.root.Close() }

// Open opens a file to be read.
func (f *Files) Open(name string) (*os.File, error) {
	file, err := f.root.Open(filepath.FromSlash(name))
	return file, unusable(name, err)
}

// Read reads a file of at most max bytes.
func (f *Files) Read(name string, max int64) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, max+1))
	if err == nil && int64(len(data)) > max {
		return nil, provider.Refused("too_large", fault.Quote(name)+" is larger than may be read at once")
	}
	return data, unusable(name, err)
}

// Write writes a file, for its owner alone, and makes the directories above it.
func (f *Files) Write(name string, data []byte) error {
	path := filepath.FromSlash(name)
	if !filepath.IsLocal(path) {
		return escapes(name)
	}
	if err := f.root.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return unusable(name, err)
	}
	return unusable(name, f.root.WriteFile(path, data, 0o600))
}

// Remove removes a file or an empty directory. One that is gone is no error.
func (f *Files) Remove(name string) error {
	return unusable(name, UnlessGone(f.root.Remove(filepath.FromSlash(name))))
}

// FS is the directory for walking. Its errors are those of package os.
func (f *Files) FS() fs.FS { return f.root.FS() }

// unusable makes an error that names nothing but what the client named. What
// os.Root refuses by itself is no error of the system.
func unusable(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case !filepath.IsLocal(filepath.FromSlash(name)):
		return escapes(name)
	case errors.Is(err, fs.ErrNotExist):
		return provider.Refused("not_found", fault.Quote(name)+" does not exist")
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return provider.Refused("unusable", fault.Quote(name)+": "+errno.Error())
	}
	if errors.Is(err, fs.ErrClosed) {
		return provider.Refused("unusable", fault.Quote(name)+" is in a directory that was closed")
	}
	return escapes(name)
}

func escapes(name string) error {
	return provider.Refused("escape", fault.Quote(name)+" leads out of the directory")
}

// UnlessGone returns err, or nil if all it says is that something is gone
// already: what teardown wants is true then. Errors that say so are
// fs.ErrNotExist, fs.ErrClosed, os.ErrProcessDone and those in gone.
func UnlessGone(err error, gone ...error) error {
	if err == nil || onlyGone(err, append([]error{fs.ErrNotExist, fs.ErrClosed, os.ErrProcessDone}, gone...)) {
		return nil
	}
	return err
}

// onlyGone reports whether every cause in err's tree is one of gone.
func onlyGone(err error, gone []error) bool {
	for _, g := range gone {
		if is, ok := err.(interface{ Is(error) bool }); err == g || ok && is.Is(g) {
			return true
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		return inner != nil && onlyGone(inner, gone)
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(one error) bool { return !onlyGone(one, gone) })
	}
	return false
}
