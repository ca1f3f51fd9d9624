package refs

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"os"

	"github.com/bridle-dev/bridle/fault"
)

// A blob's file is its content, then its description as JSON, then the length
// of that in four bytes, then trailerMagic. The description is at the end since
// the size is not known before; it is in the same file so that one rename makes
// both.
const (
	trailerMagic = "brb1"
	tailSize     = 4 + len(trailerMagic)
	// maxTrailer bounds what a damaged file can make us read. Owner and thread
	// are ids, and escaping makes them six times as long at most.
	maxTrailer = 1 << 20
)

func trailer(info BlobInfo) []byte {
	// Nothing in a blobRecord can fail to be encoded.
	text, _ := json.Marshal(newRecord(info))
	text = binary.BigEndian.AppendUint32(text, uint32(len(text)))
	return append(text, trailerMagic...)
}

// readTrailer reads the description of a blob from its file.
func readTrailer(file *os.File, id string) (BlobInfo, error) {
	damaged := fault.New(fault.StoreFailed, "the file of the blob %s is damaged", fault.Quote(id))
	stat, err := file.Stat()
	if err != nil {
		return BlobInfo{}, diskFailed(err)
	}
	size := stat.Size()
	tail := make([]byte, tailSize)
	if !stat.Mode().IsRegular() || !readAt(file, tail, size-int64(tailSize)) || string(tail[4:]) != trailerMagic {
		return BlobInfo{}, damaged
	}
	length := int64(binary.BigEndian.Uint32(tail))
	text := make([]byte, min(length, maxTrailer))
	start := size - int64(tailSize) - length
	var record blobRecord
	if length > maxTrailer || !readAt(file, text, start) || json.Unmarshal(text, &record) != nil || record.Size != start {
		return BlobInfo{}, damaged
	}
	return record.info(id), nil
}

// readAt fills buf from an offset, if there is as much.
func readAt(file *os.File, buf []byte, offset int64) bool {
	if offset < 0 {
		return false
	}
	_, err := io.ReadFull(io.NewSectionReader(file, offset, int64(len(buf))), buf)
	return err == nil
}
