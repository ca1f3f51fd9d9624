package bolt

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/bridle-dev/bridle/fault"
)

// sumSize is how many bytes a value takes more in the file than it has.
const sumSize = crc32.Size

// maxValue is the longest value: what bbolt takes, less the checksum.
const maxValue = 1<<31 - 2 - sumSize

// castagnoli is the polynomial for which processors have an instruction.
//
//allow:var a table that is only read
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns a copy of value behind its checksum.
func seal(bucket, key string, value []byte) []byte {
	size := sumSize + len(value)
	sealed := make([]byte, size, size+placeSize+len(bucket)+len(key)) // with room for its place, to be computed with
	copy(sealed[sumSize:], value)
	binary.BigEndian.PutUint32(sealed, checksum(appendPlace(sealed[size:], bucket, key), value))
	return sealed[:size:size]
}

// unseal returns the value within what seal returned, and whether it is intact.
// What scratch holds is written over.
func unseal(bucket, key string, sealed []byte, scratch *[]byte) (value []byte, ok bool) {
	if len(sealed) < sumSize {
		return nil, false
	}
	value = sealed[sumSize:]
	*scratch = appendPlace((*scratch)[:0], bucket, key)
	return value, binary.BigEndian.Uint32(sealed) == checksum(*scratch, value)
}

// placeSize is what a place takes at most, beside bucket and key.
const placeSize = 2 * binary.MaxVarintLen64

// appendPlace appends where a value belongs, in one way for each bucket and key.
func appendPlace(to []byte, bucket, key string) []byte {
	to = append(binary.AppendUvarint(to, uint64(len(bucket))), bucket...)
	return append(binary.AppendUvarint(to, uint64(len(key))), key...)
}

// checksum covers where a value belongs, too: a value that turns up under
// another key is damage.
func checksum(place, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(place, castagnoli), castagnoli, value)
}

// errRecord says which record is not what was written.
type errRecord struct{ bucket, key string }

func (e errRecord) Error() string {
	return "the record " + fault.Quote(e.key) + " of " + fault.Quote(e.bucket) + " does not fit its checksum"
}

// digest stands for all records of the file, so that one that is missing shows.
// Its value does not depend on the order in which they were written.
type digest struct {
	records uint64
	sums    uint64 // all checksums added up
}

func (d *digest) add(sealed []byte) {
	d.records++
	d.sums += uint64(binary.BigEndian.Uint32(sealed))
}

func (d *digest) remove(sealed []byte) {
	d.records--
	d.sums -= uint64(binary.BigEndian.Uint32(sealed))
}

const digestSize = 16

func (d digest) encode() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, d.records), d.sums)
}

// decodeDigest takes anything that is no digest for one that fits no file.
func decodeDigest(b []byte) digest {
	if len(b) != digestSize {
		return digest{records: 1<<64 - 1}
	}
	return digest{records: binary.BigEndian.Uint64(b), sums: binary.BigEndian.Uint64(b[8:])}
}
