package secrets

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/bridle-dev/bridle/fault"
)

// Dir resolves from the files of a directory, one secret each, as systemd and
// Kubernetes provide them: the name of the secret is the path of the file within
// the directory. One line end at the end of a file is not part of the secret.
// Files are read each time; what is over 64 KiB is fault.SecretUnavailable.
//
// Nothing outside the directory is read, neither by a name with ".." in it nor
// through a symbolic link; links within it are followed. A directory that is
// missing fails each use.
func Dir(path string) Resolver {
	return ResolverFunc(func(ctx context.Context, use Use) (Value, error) {
		if err := context.Cause(ctx); err != nil {
			return Value{}, err
		}
		content, err := readSecret(path, string(use.Ref))
		switch {
		case err == errUnknown:
			return Value{}, Unknown(use.Ref)
		case err != nil:
			return Value{}, fault.New(fault.SecretUnavailable, "reading secret %s: %w", fault.Quote(string(use.Ref)), err).
				WithHint("Check the directory of secrets, and that this program may read it.")
		}
		if line, ok := strings.CutSuffix(content, "\n"); ok {
			content = strings.TrimSuffix(line, "\r")
		}
		return checked(use.Ref, NewValue(content))
	})
}

var errUnknown = errors.New("no such file")

// readSecret reads a file of a directory.
func readSecret(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if !fs.ValidPath(name) || name == "." {
		return "", errUnknown
	}
	// Opening a pipe would wait for a writer.
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errUnknown
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errUnknown
	}
	file, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxSecret+3))
	return string(content), err
}
