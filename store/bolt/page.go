package bolt

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// The kinds of pages, and the sizes of what they hold.
const (
	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10

	pageHeader  = 16
	elementSize = 16
	bucketFlag  = 0x01 // of an element: its value is a bucket
	bucketSize  = 16   // of such a value, without a page within
	idSize      = 8
)

// page is a page of bbolt with those that continue it, or one that lies within
// the value of a small bucket.
type page []byte

func (p page) id() uint64       { return binary.NativeEndian.Uint64(p) }
func (p page) kind() uint16     { return binary.NativeEndian.Uint16(p[8:]) }
func (p page) count() int       { return int(binary.NativeEndian.Uint16(p[10:])) }
func (p page) overflow() uint32 { return binary.NativeEndian.Uint32(p[12:]) }

func (p page) clone() page { return append(page(nil), p...) }

// element is a key of a page with what belongs to it.
type element struct {
	key   []byte
	value []byte // in a leaf
	flags uint32 // in a leaf
	child uint64 // in a branch
}

// elements reads a branch or a leaf into a slice, trusting nothing.
func (p page) elements(into []element) ([]element, error) {
	all := slices.Grow(into[:0], p.count())[:p.count()]
	if len(p) < pageHeader+len(all)*elementSize {
		return nil, errPage{p.id(), "its elements do not fit into it"}
	}
	for i := range all {
		at := pageHeader + i*elementSize
		if err := all[i].read(p, at, p.kind()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (e *element) read(p page, at int, kind uint16) (err error) {
	word := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(p[at+4*i:])) }
	if kind == branchPage {
		e.child = binary.NativeEndian.Uint64(p[at+8:])
		e.key, err = p.part(uint64(at)+word(0), word(1))
		return err
	}
	e.flags = uint32(word(0))
	if e.key, err = p.part(uint64(at)+word(1), word(2)); err != nil {
		return err
	}
	e.value, err = p.part(uint64(at)+word(1)+word(2), word(3))
	return err
}

func (p page) part(from, size uint64) ([]byte, error) {
	if from > uint64(len(p)) || size > uint64(len(p))-from {
		return nil, errPage{p.id(), "an element does not fit into it"}
	}
	return p[from : from+size], nil
}

// free reads a list of free pages.
func (p page) free() ([]uint64, error) {
	count, ids := uint64(p.count()), p[pageHeader:]
	if count == 0xFFFF && len(ids) >= idSize { // the count has no room in the header
		count, ids = binary.NativeEndian.Uint64(ids), ids[idSize:]
	}
	if count > uint64(len(ids)/idSize) {
		return nil, errPage{p.id(), "the list of free pages does not fit into it"}
	}
	all := make([]uint64, count)
	for i := range all {
		all[i] = binary.NativeEndian.Uint64(ids[i*idSize:])
	}
	return all, nil
}

// pages reads the pages of a file, each at most once.
type pages struct {
	file     io.ReaderAt
	pageSize int
	count    uint64   // of pages that the head knows
	taken    []uint64 // a bit for each
	scratch  page     // what read returns
}

func newPages(file io.ReaderAt, h head, pageSize int) *pages {
	p := &pages{file: file, pageSize: pageSize, count: h.pages()}
	p.taken = make([]uint64, p.count/64+1)
	return p
}

// take marks pages as used. None may be used twice, nor be a head.
func (p *pages) take(id, n uint64) error {
	if id < 2 || id >= p.count || n > p.count-id {
		return errPage{id, "it lies outside of the file"}
	}
	for i := id; i < id+n; i++ {
		if p.taken[i/64]&(1<<(i%64)) != 0 {
			return errPage{i, "it is used twice"}
		}
		p.taken[i/64] |= 1 << (i % 64)
	}
	return nil
}

// read returns a page of one of some kinds. It stays as it is until the next read.
func (p *pages) read(id uint64, kinds ...uint16) (page, error) {
	if err := p.take(id, 1); err != nil {
		return nil, err
	}
	first, err := p.fill(id, 1)
	if err != nil {
		return nil, err
	}
	more := uint64(first.overflow())
	if first.id() != id || !slices.Contains(kinds, first.kind()) {
		return nil, errPage{id, fmt.Sprintf("it says to be page %d of kind %#x", first.id(), first.kind())}
	}
	if more == 0 {
		return first, nil
	}
	if err := p.take(id+1, more); err != nil {
		return nil, err
	}
	return p.fill(id, more+1)
}

func (p *pages) fill(id, n uint64) (page, error) {
	size := int(n) * p.pageSize
	p.scratch = slices.Grow(p.scratch[:0], size)[:size]
	_, err := p.file.ReadAt(p.scratch, int64(id)*int64(p.pageSize))
	return p.scratch, err
}

// errPage says what is wrong with a page.
type errPage struct {
	id   uint64
	what string
}

func (e errPage) Error() string { return fmt.Sprintf("page %d: %s", e.id, e.what) }
