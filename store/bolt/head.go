package bolt

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"io"
	"os"
)

// A file of bbolt begins with two heads, one page each. The transaction with the
// number n writes its head over the one of n-2, as the last thing it does, so
// that one of them is always whole. These are the offsets within such a page.
const (
	headMagicAt    = 16
	headPageSizeAt = 24
	headRootAt     = 32
	headFreeAt     = 48
	headPagesAt    = 56
	headTxAt       = 64
	headSumAt      = 72
	headSize       = 80

	headMagic   = 0xED0CDAED
	headVersion = 2
)

// head is a head page, or as much of it as matters.
type head []byte

func (h head) pageSize() int    { return int(binary.NativeEndian.Uint32(h[headPageSizeAt:])) }
func (h head) root() uint64     { return binary.NativeEndian.Uint64(h[headRootAt:]) }
func (h head) freelist() uint64 { return binary.NativeEndian.Uint64(h[headFreeAt:]) }
func (h head) pages() uint64    { return binary.NativeEndian.Uint64(h[headPagesAt:]) }
func (h head) tx() uint64       { return binary.NativeEndian.Uint64(h[headTxAt:]) }

// valid reports whether bbolt would take the head.
func (h head) valid() bool {
	return binary.NativeEndian.Uint32(h[headMagicAt:]) == headMagic &&
		binary.NativeEndian.Uint32(h[headMagicAt+4:]) == headVersion &&
		binary.NativeEndian.Uint64(h[headSumAt:]) == h.sum()
}

func (h head) sum() uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write(h[headMagicAt:headSumAt])
	return sum.Sum64()
}

// blank reports whether nothing was ever written there.
func (h head) blank() bool { return bytes.Count(h, []byte{0}) == len(h) }

// initial reports whether this is the head that an empty file has in a slot, or
// is yet to get.
func (h head) initial(slot uint64) bool { return h.blank() || h.valid() && h.tx() == slot }

// wasOf reports whether the head would be valid as one of transaction tx.
func (h head) wasOf(tx uint64) bool {
	other := append(head{}, h[:headSize]...)
	binary.NativeEndian.PutUint64(other[headTxAt:], tx)
	return other.valid()
}

func readHead(file io.ReaderAt, pageSize int, slot uint64) (head, error) {
	h := make(head, headSize)
	_, err := file.ReadAt(h, int64(slot)*int64(pageSize))
	return h, err
}

// currentHead returns the head that bbolt goes by. It fails with errHead if the
// other one is damaged and may have been the later one: then the last commit
// would be missing.
func currentHead(file io.ReaderAt, pageSize int) (head, error) {
	var heads [2]head
	for slot := range heads {
		h, err := readHead(file, pageSize, uint64(slot))
		if err != nil {
			return nil, err
		}
		heads[slot] = h
	}
	first, second := heads[0], heads[1]
	switch {
	case first.valid() && second.valid():
		if second.tx() > first.tx() {
			return second, nil
		}
		return first, nil
	case second.valid():
		first, second = second, first
	}
	if !first.valid() || !tornOver(second, first.tx()) {
		return nil, errHead{}
	}
	return first, nil
}

// tornOver reports whether an invalid head is what a write that was cut off left
// of an earlier one, beside a valid head of transaction tx: the number of the
// transaction, nearly the last thing in it, is still an earlier one. In a later
// head with a damage anywhere else the number is tx+1.
func tornOver(h head, tx uint64) bool {
	return h.tx() <= tx && h.tx()+1 >= tx && !h.wasOf(tx+1)
}

// errHead says that one of the heads is damaged.
type errHead struct{}

func (errHead) Error() string { return "the head of the last transaction does not fit its checksum" }

// rewind puts the head of the transaction before tx in the place of that of tx,
// and reports whether there was anything to do.
func rewind(file *os.File, pageSize int, tx uint64) (switched bool, err error) {
	slot := tx % 2
	failed, err := readHead(file, pageSize, slot)
	if err != nil {
		return false, err
	}
	if failed.valid() && failed.tx() < tx {
		return false, nil
	}
	before, err := readHead(file, pageSize, 1-slot)
	if err != nil {
		return false, err
	}
	if !before.valid() {
		return false, errHead{}
	}
	binary.NativeEndian.PutUint64(before, slot) // a page says where it belongs
	if _, err := file.WriteAt(before, int64(slot)*int64(pageSize)); err != nil {
		return false, err
	}
	return true, file.Sync()
}
