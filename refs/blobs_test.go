package refs_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/refs/refstest"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/storetest"
)

func TestMemoryBlobsKeepTheContract(t *testing.T) {
	refstest.Run(t, refstest.Config{New: func(_ *testing.T, opts *refs.BlobOptions) refs.Blobs { return refs.MemoryBlobs(opts) }})
}

// kept blobs remember where they are, to be opened there again.
type kept struct {
	refs.Blobs
	again func(opts *refs.BlobOptions) refs.Blobs
}

func reopen(_ *testing.T, b refs.Blobs, opts *refs.BlobOptions) refs.Blobs {
	again := b.(kept).again
	return kept{again(opts), again}
}

func dirBlobs(t *testing.T, path string, opts *refs.BlobOptions) refs.Blobs {
	t.Helper()
	b, err := refs.DirBlobs(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDirBlobsKeepTheContract(t *testing.T) {
	refstest.Run(t, refstest.Config{
		New: func(t *testing.T, opts *refs.BlobOptions) refs.Blobs {
			path := filepath.Join(t.TempDir(), "made", "here")
			return kept{dirBlobs(t, path, opts), func(opts *refs.BlobOptions) refs.Blobs { return dirBlobs(t, path, opts) }}
		},
		Reopen: reopen,
	})
}

func TestStoreBlobsKeepTheContract(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return store.Memory() },
		"bolt":   func(t *testing.T) store.Store { return openBolt(t, filepath.Join(t.TempDir(), "db")) },
	} {
		t.Run(name, func(t *testing.T) {
			refstest.Run(t, refstest.Config{
				New: func(t *testing.T, opts *refs.BlobOptions) refs.Blobs {
					s := open(t)
					t.Cleanup(func() { s.Close() })
					return kept{refs.StoreBlobs(s, opts), func(opts *refs.BlobOptions) refs.Blobs { return refs.StoreBlobs(s, opts) }}
				},
				Reopen: reopen,
			})
		})
	}
}

func blobOf(owner string) refs.BlobInfo { return refs.BlobInfo{Owner: owner, Thread: "t1"} }

// filesIn lists the files below a directory with their modes.
func filesIn(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	files := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if path != dir {
			files[path] = info.Mode()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestFilesOfBlobsAreTheOwnersOnly(t *testing.T) {
	dir := t.TempDir()
	b := dirBlobs(t, dir, nil)
	defer b.Close()
	if _, err := b.Put(t.Context(), blobOf("o"), strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	files := filesIn(t, dir)
	if len(files) != 2 {
		t.Errorf("files: %v, want a directory and a blob", files)
	}
	for path, mode := range files {
		if mode.Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, which lets others in", path, mode)
		}
	}
	if _, err := b.Collect(t.Context(), "o"); err != nil || len(filesIn(t, dir)) != 0 {
		t.Errorf("after Collect, error %v: %v are left", err, filesIn(t, dir))
	}
}

// copying is content that looks at what is stored while it is read.
type copying struct {
	looked bool
	look   func()
}

func (c *copying) Read(p []byte) (int, error) {
	if c.looked {
		c.look()
		return 0, io.EOF
	}
	c.looked = true
	return copy(p, bytes.Repeat([]byte("x"), 4000)), nil
}

func TestACrashInPutLeavesNoBlob(t *testing.T) {
	crashed, dir := t.TempDir(), t.TempDir()
	b := dirBlobs(t, dir, nil)
	defer b.Close()
	info, err := b.Put(t.Context(), blobOf("o"), &copying{look: func() {
		if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	after := dirBlobs(t, crashed, nil)
	defer after.Close()
	if _, _, err := after.Open(t.Context(), info.ID); !errors.Is(err, fault.BlobUnavailable) {
		t.Errorf("half a blob: error %v, want blob_unavailable", err)
	}
	if len(filesIn(t, crashed)) != 2 {
		t.Fatalf("the crash left %v, want a directory and a file", filesIn(t, crashed))
	}
	if n, err := after.Collect(t.Context(), "o"); n != 0 || err != nil || len(filesIn(t, crashed)) != 0 {
		t.Errorf("Collect = %d, %v, and left %v", n, err, filesIn(t, crashed))
	}
}

func TestDamagedFilesAreNoBlobs(t *testing.T) {
	dir := t.TempDir()
	b := dirBlobs(t, dir, nil)
	defer b.Close()
	info, err := b.Put(t.Context(), blobOf("o"), strings.NewReader("some content"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, info.ID[:32], info.ID[32:])
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range whole {
		for _, damaged := range [][]byte{whole[:cut], append(bytes.Clone(whole[:cut]), whole[cut+1:]...)} {
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := b.Open(t.Context(), info.ID); !errors.Is(err, fault.StoreFailed) {
				t.Errorf("cut at %d: error %v, want store_failed", cut, err)
			}
		}
	}
	if n, err := b.Collect(t.Context(), "o"); n != 1 || err != nil {
		t.Errorf("Collect = %d, %v, want 1", n, err)
	}
}

func TestLinksLeadNowhere(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	b := dirBlobs(t, dir, nil)
	defer b.Close()
	info, err := b.Put(t.Context(), blobOf("o"), strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	owner := filepath.Join(dir, info.ID[:32])
	if err := errors.Join(os.Rename(owner, filepath.Join(outside, "o")), os.Symlink(filepath.Join(outside, "o"), owner)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Open(t.Context(), info.ID); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("Open through a link: error %v, want store_failed", err)
	}
	if _, err := b.Put(t.Context(), blobOf("o"), strings.NewReader("x")); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("Put through a link: error %v, want store_failed", err)
	}
}

func TestADirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "x"), "\x00"} {
		if b, err := refs.DirBlobs(path, nil); !errors.Is(err, fault.StoreFailed) || b != nil {
			t.Errorf("%q: error %v, want store_failed", path, err)
		}
	}
}

func TestASmallBlobIsOneTransaction(t *testing.T) {
	s := &storetest.Counter{Store: store.Memory()}
	defer s.Close()
	if _, err := refs.StoreBlobs(s, nil).Put(t.Context(), blobOf("o"), bytes.NewReader(make([]byte, 128<<10))); err != nil {
		t.Fatal(err)
	}
	if got := s.Updates.Load(); got != 1 {
		t.Errorf("%d transactions, want 1", got)
	}
}

// dying fails every Update after some.
type dying struct {
	store.Store
	left int
}

func (d *dying) Update(ctx context.Context, f func(store.Tx) error) error {
	if d.left--; d.left < 0 {
		return fault.New(fault.StoreFailed, "the process died")
	}
	return d.Store.Update(ctx, f)
}

func TestAStoreKeepsNoHalfBlobAfterACrash(t *testing.T) {
	const chunks = 4
	for writes := range chunks {
		s := store.Memory()
		b := refs.StoreBlobs(&dying{s, writes}, nil)
		if _, err := b.Put(t.Context(), blobOf("o"), bytes.NewReader(make([]byte, (chunks-1)<<19+1))); !errors.Is(err, fault.StoreFailed) {
			t.Fatalf("Put that died after %d writes: error %v", writes, err)
		}
		after := refs.StoreBlobs(s, &refs.BlobOptions{MaxOwner: 1})
		if n, err := after.Collect(t.Context(), "o"); n != 0 || err != nil {
			t.Errorf("after %d writes: Collect = %d, %v, want 0", writes, n, err)
		}
		if left := records(t, s); left != 0 {
			t.Errorf("after %d writes, Collect left %d records", writes, left)
		}
		s.Close()
	}
}

// records counts what blobs have in a store.
func records(t *testing.T, s store.Store) (n int) {
	t.Helper()
	err := s.View(t.Context(), func(tx store.Tx) error {
		for _, bucket := range []string{"refs/blobs", "refs/blobs/chunks", "refs/blobs/owners", "refs/blobs/used"} {
			for _, err := range tx.Scan(bucket, store.Range{}) {
				if err != nil {
					return err
				}
				n++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAFailedPutLeavesNothingInTheStore(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	b := refs.StoreBlobs(s, &refs.BlobOptions{MaxBlob: 1 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	content := io.MultiReader(bytes.NewReader(make([]byte, 600<<10)), &copying{look: cancel}, strings.NewReader("x"))
	if _, err := b.Put(ctx, blobOf("o"), content); !errors.Is(err, fault.Cancelled) {
		t.Errorf("error %v, want cancelled", err)
	}
	if _, err := b.Put(t.Context(), blobOf("o"), bytes.NewReader(make([]byte, 1<<20+1))); !errors.Is(err, fault.BlobUnavailable) {
		t.Errorf("error %v, want blob_unavailable", err)
	}
	if left := records(t, s); left != 0 {
		t.Errorf("%d records are left", left)
	}
}

func TestARefToABlobHasItsFacts(t *testing.T) {
	b := refs.MemoryBlobs(nil)
	defer b.Close()
	info, err := b.Put(t.Context(), refs.BlobInfo{MIMEType: "image/png", Sensitive: true, Owner: "o", Thread: "t1"}, strings.NewReader("png"))
	if err != nil {
		t.Fatal(err)
	}
	r := seal(t, newKeys(t), info.Ref(), home(), false)
	if r.Kind() != refs.BlobKind || r.ID() != info.ID || r.MIMEType() != "image/png" || r.Size() != 3 || !r.Sensitive() {
		t.Errorf("got %v", r)
	}
}
