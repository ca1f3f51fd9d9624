package mcpserver_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
)

func peerCode(err error) string {
	if fe, ok := errors.AsType[*fault.Error](err); ok && fe.Code == fault.OpFailed {
		return fe.PeerCode
	}
	return fmt.Sprint(err)
}

func TestNoNameLeadsOutOfTheDirectory(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "run")
	for _, err := range []error{
		os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(parent, "secret"), []byte("secret"), 0o600),
		os.Symlink(filepath.Join(parent, "secret"), filepath.Join(dir, "absolute")),
		os.Symlink("../secret", filepath.Join(dir, "relative")),
		os.Symlink("..", filepath.Join(dir, "up")),
		os.Symlink("good", filepath.Join(dir, "inside")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := mcpserver.OpenFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for _, name := range []string{"../secret", "/etc/passwd", parent + "/secret", "absolute", "relative", "up/secret", "a/../../secret", "..", ""} {
		if _, err := files.Read(name, 100); peerCode(err) != "escape" {
			t.Errorf("read %q: %v", name, err)
		}
		if err := files.Write(name, []byte("x")); peerCode(err) != "escape" {
			t.Errorf("write %q: %v", name, err)
		}
	}
	for _, name := range []string{"../secret", "up/secret"} {
		if err := files.Remove(name); peerCode(err) != "escape" {
			t.Errorf("remove %q: %v", name, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(parent, "secret")); string(data) != "secret" {
		t.Errorf("%q, %v", data, err)
	}
	if err := files.Write("good", []byte("1234")); err != nil {
		t.Error(err)
	}
	if data, err := files.Read("inside", 4); string(data) != "1234" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := files.Read("good", 3); peerCode(err) != "too_large" {
		t.Error(err)
	}
	if err := files.Write("deep/er/file", nil); err != nil {
		t.Error(err)
	}
	if _, err := files.Read("deep", 10); peerCode(err) != "unusable" {
		t.Error(err)
	}
	for range 2 {
		if err := files.Remove("good"); err != nil {
			t.Error(err)
		}
	}
	if _, err := files.Read("good", 3); peerCode(err) != "not_found" {
		t.Error(err)
	}
	if _, err := fs.Stat(files.FS(), "deep/er/file"); err != nil {
		t.Error(err)
	}
	files.Close()
	if _, err := files.Read("deep/er/file", 3); peerCode(err) != "unusable" {
		t.Error(err)
	}
}

func TestOnlyWhatIsGoneIsForgiven(t *testing.T) {
	t.Parallel()
	own := errors.New("no such lease")
	real := errors.New("permission denied")
	_, missing := os.Open(filepath.Join(t.TempDir(), "missing"))
	for name, tt := range map[string]struct {
		err  error
		left bool
	}{
		"nil":              {nil, false},
		"missing file":     {missing, false},
		"wrapped":          {fmt.Errorf("stop: %w", missing), false},
		"process":          {os.ErrProcessDone, false},
		"own":              {own, false},
		"all of several":   {errors.Join(missing, own), false},
		"real":             {real, true},
		"one of several":   {errors.Join(missing, real), true},
		"several, wrapped": {fmt.Errorf("stop: %w", errors.Join(missing, real)), true},
	} {
		if err := mcpserver.UnlessGone(tt.err, own); (err != nil) != tt.left {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzCutSaysWhatItDid(f *testing.F) {
	f.Add("short", 10)
	f.Add("ab\u00e9\u4e16\u754c", 4)
	f.Add("bad \xff\xfe bytes", 5)
	f.Add("", 0)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 0 || most > 1000 {
			return
		}
		got := mcpserver.Cut(text, most)
		whole := strings.ToValidUTF8(text, "\ufffd")
		if !utf8.ValidString(got) {
			t.Errorf("%q is no UTF-8", got)
		}
		if len(whole) <= most {
			if got != whole {
				t.Errorf("got %q, want all of %q", got, whole)
			}
			return
		}
		head, _, cut := strings.Cut(got, "\n[cut: ")
		if len(head) > most && !strings.Contains(whole, "\n[cut: ") || !cut || !strings.HasPrefix(whole, head) ||
			!strings.HasSuffix(got, fmt.Sprintf(" of %d bytes are shown]", len(whole))) {
			t.Errorf("Cut(%q, %d) = %q", text, most, got)
		}
	})
}

func TestAnOutputSaysWhatItIs(t *testing.T) {
	t.Parallel()
	o := mcpserver.NewOutput("make test", 2, []byte("failed: x\n"), 6)
	if got, want := o.String(), "$ make test\n(exit 2)\nfailed\n[cut: 6 of 10 bytes are shown]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !o.Truncated || o.Bytes != 10 {
		t.Errorf("%+v", o)
	}
	if o := mcpserver.NewOutput("true", 0, nil, 6); o.Truncated || o.String() != "$ true\n(exit 0)\n" {
		t.Errorf("%+v", o)
	}
}
