package refs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/bridle-dev/bridle/fault"
)

const (
	// ownerDir is the length of the name of an owner's directory, which begins
	// the ids of its blobs: half a SHA-256 in hex.
	ownerDir = 32
	// unfinished begins the names of files that are no blobs yet.
	unfinished = "."

	blobFileMode fs.FileMode = 0o600
	blobDirMode  fs.FileMode = 0o700
)

// DirBlobs keeps blobs as files in a directory, which is made if there is none:
// a directory for each owner, a file for each blob, readable by this user only.
// The path is trusted; what is in it is opened through [os.Root].
//
// A file gets its name when it is complete and on the disk. What a process left
// that died in a Put is removed when its owner is collected. The cap of an
// owner counts what this process writes and what was there before.
//
// The error is store_failed if the directory cannot be made or opened.
func DirBlobs(path string, opts *BlobOptions) (Blobs, error) {
	if err := os.MkdirAll(path, blobDirMode); err != nil {
		return nil, diskFailed(err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, diskFailed(err)
	}
	return &dirBlobs{root: root, quota: newQuota(opts)}, nil
}

type dirBlobs struct {
	root   *os.Root
	quota  *quota
	closed atomic.Bool
}

// diskFailed is the error for what the file system refused. Its text has the
// path in it, which the application chose.
func diskFailed(err error) error {
	switch {
	case errors.Is(err, fs.ErrClosed):
		return closedBlobs()
	case errors.Is(err, fs.ErrNotExist):
		return unavailable("it was collected meanwhile: %w", err)
	}
	return fault.New(fault.StoreFailed, "blobs: %w", err)
}

// dirOf names the directory of an owner.
func dirOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:])[:ownerDir]
}

// fileOf returns where the blob of an id is, and false for what is no id.
func fileOf(id string) (string, bool) {
	if len(id) <= ownerDir || strings.ContainsFunc(id, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		return "", false
	}
	return id[:ownerDir] + "/" + id[ownerDir:], true
}

func (d *dirBlobs) Put(ctx context.Context, info BlobInfo, content io.Reader) (BlobInfo, error) {
	if d.closed.Load() {
		return BlobInfo{}, closedBlobs()
	}
	dir, name := dirOf(info.Owner), rand.Text()
	info, err := described(info, dir+name)
	if err != nil {
		return BlobInfo{}, err
	}
	if err := d.prepare(dir, info.Owner); err != nil {
		return BlobInfo{}, err
	}
	temporary := dir + "/" + unfinished + name
	file, err := d.root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, blobFileMode)
	if err != nil {
		return BlobInfo{}, diskFailed(err)
	}
	kept := false
	defer func() {
		_ = file.Close()
		if !kept {
			_ = d.root.Remove(temporary)
			d.quota.release(info.Owner, info.Size)
		}
	}()
	if err := d.write(ctx, file, &info, content); err != nil {
		return BlobInfo{}, err
	}
	if err := d.commit(file, temporary, dir, name); err != nil {
		return BlobInfo{}, err
	}
	kept = true
	return info, nil
}

// prepare makes the directory of an owner and counts what is in it already.
func (d *dirBlobs) prepare(dir, owner string) error {
	switch err := d.root.Mkdir(dir, blobDirMode); {
	case err == nil:
		if err := d.sync("."); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return diskFailed(err)
	}
	if d.quota.known(owner) {
		return nil
	}
	files, err := d.files(dir)
	if err != nil {
		return err
	}
	var size int64
	for _, file := range files {
		size += d.sizeOf(dir, file.Name())
	}
	d.quota.begin(owner, size)
	return nil
}

// sizeOf returns the size of a blob, 0 for a file that is none.
func (d *dirBlobs) sizeOf(dir, name string) int64 {
	if strings.HasPrefix(name, unfinished) {
		return 0
	}
	file, err := d.root.Open(dir + "/" + name)
	if err != nil {
		return 0
	}
	defer file.Close()
	info, _ := readTrailer(file, dir+name)
	return info.Size
}

// files lists a directory; one that is not there has none.
func (d *dirBlobs) files(dir string) ([]fs.DirEntry, error) {
	files, err := fs.ReadDir(d.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, diskFailed(err)
	}
	return files, nil
}

// write writes content and description, counting in info what was taken.
func (d *dirBlobs) write(ctx context.Context, file *os.File, info *BlobInfo, content io.Reader) error {
	buf := make([]byte, copyBuffer)
	for ended := false; !ended; {
		var n int
		var err error
		if n, ended, err = fill(ctx, content, buf); err != nil {
			return err
		}
		if err := d.quota.grow(info.Owner, info.Size, int64(n)); err != nil {
			return err
		}
		info.Size += int64(n)
		if _, err := file.Write(buf[:n]); err != nil {
			return diskFailed(err)
		}
	}
	if _, err := file.Write(trailer(*info)); err != nil {
		return diskFailed(err)
	}
	return nil
}

// commit makes a written file the blob, so that it is whole after a crash of
// the machine or not there.
func (d *dirBlobs) commit(file *os.File, temporary, dir, name string) error {
	if err := file.Sync(); err != nil {
		return diskFailed(err)
	}
	if d.closed.Load() {
		return closedBlobs()
	}
	if err := d.root.Rename(temporary, dir+"/"+name); err != nil {
		return diskFailed(err)
	}
	if err := d.sync(dir); err != nil {
		_ = d.root.Remove(dir + "/" + name)
		return err
	}
	return nil
}

// sync writes a directory itself to the disk.
func (d *dirBlobs) sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // which cannot do that, and keeps its own journal
	}
	handle, err := d.root.Open(dir)
	if err != nil {
		return diskFailed(err)
	}
	defer handle.Close()
	if err := handle.Sync(); err != nil {
		return diskFailed(err)
	}
	return nil
}

func (d *dirBlobs) Open(ctx context.Context, id string) (io.ReadSeekCloser, BlobInfo, error) {
	if d.closed.Load() {
		return nil, BlobInfo{}, closedBlobs()
	}
	if err := ended(ctx); err != nil {
		return nil, BlobInfo{}, err
	}
	name, ok := fileOf(id)
	if !ok {
		return nil, BlobInfo{}, gone(id)
	}
	file, err := d.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, BlobInfo{}, gone(id)
	}
	if err != nil {
		return nil, BlobInfo{}, diskFailed(err)
	}
	info, err := readTrailer(file, id)
	if err != nil {
		_ = file.Close()
		return nil, BlobInfo{}, err
	}
	return fileReader{io.NewSectionReader(file, 0, info.Size), file}, info, nil
}

func (d *dirBlobs) Collect(ctx context.Context, owner string) (int, error) {
	if d.closed.Load() {
		return 0, closedBlobs()
	}
	dir, count := dirOf(owner), 0
	files, err := d.files(dir)
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		if err := ended(ctx); err != nil {
			return count, err
		}
		removed, err := d.remove(owner, dir, file.Name())
		if err != nil {
			return count, err
		}
		if removed {
			count++
		}
	}
	if err := d.root.Remove(dir); err == nil {
		return count, d.sync(".")
	}
	return count, nil // not there, or with a new blob in it
}

// remove deletes a file of an owner and reports whether it was a blob.
func (d *dirBlobs) remove(owner, dir, name string) (bool, error) {
	size, blob := d.sizeOf(dir, name), !strings.HasPrefix(name, unfinished)
	err := d.root.Remove(dir + "/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // somebody else was first
	}
	if err != nil {
		return false, diskFailed(err)
	}
	if blob {
		d.quota.release(owner, size)
	}
	return blob, nil
}

func (d *dirBlobs) Close() error {
	d.closed.Store(true)
	_ = d.root.Close() // closing twice is no error
	return nil
}

// fileReader reads the content and not the trailer.
type fileReader struct {
	io.ReadSeeker
	file *os.File
}

func (r fileReader) Close() error { return r.file.Close() }
