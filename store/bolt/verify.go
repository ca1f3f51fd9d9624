package bolt

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
)

// contents is what a look at the whole file finds.
type contents struct {
	empty  bool   // not even a format
	format string // "" if there is none
	digest digest
}

// verify reads the whole file, without trusting any of it, and checks that all
// that was written is there: bbolt itself has checksums for its heads only. It
// stops early, without an error, at a format that is not this one.
func verify(file io.ReaderAt, size int64, pageSize int) (contents, error) {
	h, err := currentHead(file, pageSize)
	if err != nil {
		return contents{}, err
	}
	if want := int64(h.pages()) * int64(pageSize); size < want {
		return contents{}, errTruncated{want: want, got: size}
	}
	v := &verifier{pages: newPages(file, h, pageSize), buckets: map[string][]byte{}}
	if err := v.tree(h.root(), v.bucket); err != nil {
		return contents{}, err
	}
	found := contents{empty: len(v.buckets) == 0}
	meta, err := v.meta()
	found.format = meta[formatKey]
	if err != nil || found.format != format {
		return found, err
	}
	for name, value := range v.buckets {
		if err := v.records(name, value); err != nil {
			return found, err
		}
	}
	if v.found != decodeDigest([]byte(meta[digestKey])) {
		return found, errMissing{}
	}
	found.digest = v.found
	return found, v.free(h.freelist())
}

// verifier collects what it finds in a file.
type verifier struct {
	pages   *pages
	buckets map[string][]byte // values of the root's elements by name
	found   digest
	scratch []element // of the last leaf
	place   []byte    // of the last record
}

// bucket notes an element of the root.
func (v *verifier) bucket(e element) error {
	if e.flags != bucketFlag || len(e.value) < bucketSize {
		return errMissing{}
	}
	v.buckets[string(e.key)] = bytes.Clone(e.value)
	return nil
}

// meta reads the bucket about the file itself.
func (v *verifier) meta() (map[string]string, error) {
	meta := map[string]string{}
	value := v.buckets[metaBucket]
	if value == nil {
		return meta, nil
	}
	return meta, v.within(value, func(e element) error {
		meta[string(e.key)] = string(e.value)
		return nil
	})
}

// records checks the records of a bucket and counts them in.
func (v *verifier) records(name string, value []byte) error {
	bucket, ours := strings.CutPrefix(name, bucketPrefix)
	if !ours {
		if name == metaBucket {
			return nil
		}
		return errMissing{}
	}
	return v.within(value, func(e element) error {
		if _, intact := unseal(bucket, string(e.key), e.value, &v.place); !intact || e.flags != 0 {
			return errRecord{bucket, string(e.key)}
		}
		v.found.add(e.value)
		return nil
	})
}

// within visits the elements of a bucket: of the tree that its value names or,
// if it names none, of the page that lies within the value.
func (v *verifier) within(value []byte, visit func(element) error) error {
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return v.tree(root, visit)
	}
	inline := page(value[bucketSize:])
	if len(inline) < pageHeader || inline.kind() != leafPage {
		return errPage{0, "a small bucket is none"}
	}
	return v.leaf(inline, bounds{}, visit)
}

// bounds are those of the keys below a branch. A nil end is none.
type bounds struct{ from, to []byte }

func (b bounds) contain(key []byte) bool {
	return bytes.Compare(key, b.from) >= 0 && (b.to == nil || bytes.Compare(key, b.to) < 0)
}

func (v *verifier) tree(root uint64, visit func(element) error) error {
	return v.subtree(root, bounds{}, deepest, visit)
}

// deepest is more levels than a tree of bbolt can have in any file.
const deepest = 64

func (v *verifier) subtree(id uint64, within bounds, levels int, visit func(element) error) error {
	p, err := v.pages.read(id, branchPage, leafPage)
	if err != nil {
		return err
	}
	if p.kind() == leafPage {
		return v.leaf(p, within, visit)
	}
	children, err := p.clone().elements(nil)
	if err != nil {
		return err
	}
	if levels == 0 || len(children) == 0 {
		return errPage{id, "a branch leads nowhere"}
	}
	if err := inOrder(p, children, within); err != nil {
		return err
	}
	for i, child := range children {
		below := bounds{from: child.key, to: within.to}
		if i+1 < len(children) {
			below.to = children[i+1].key
		}
		if err := v.subtree(child.child, below, levels-1, visit); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) leaf(p page, within bounds, visit func(element) error) error {
	elements, err := p.elements(v.scratch)
	v.scratch = elements
	if err != nil {
		return err
	}
	if err := inOrder(p, elements, within); err != nil {
		return err
	}
	for _, e := range elements {
		if err := visit(e); err != nil {
			return err
		}
	}
	return nil
}

// inOrder checks that keys can be found where they are.
func inOrder(p page, elements []element, within bounds) error {
	for i, e := range elements {
		if len(e.key) == 0 || !within.contain(e.key) || (i > 0 && bytes.Compare(elements[i-1].key, e.key) >= 0) {
			return errPage{p.id(), "its keys are not in order"}
		}
	}
	return nil
}

// free checks that no page with records is taken for a free one, to be written
// over later.
func (v *verifier) free(id uint64) error {
	p, err := v.pages.read(id, freelistPage)
	if err != nil {
		return err
	}
	ids, err := p.free()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := v.pages.take(id, 1); err != nil {
			return err
		}
	}
	return nil
}

// errMissing says that the digest of all records is not that of those found.
type errMissing struct{}

func (errMissing) Error() string { return "records are missing or were not written by a store" }
