package harness

import (
	"encoding/base64"
	"fmt"
	"io"
	"unicode/utf8"
)

// part is a part of a blob.
type part struct {
	from int64 // where it begins
	data []byte
}

// readPart reads up to limit bytes from offset on, whole characters only, and
// one at least. A part that would begin within a character begins with it.
func readPart(r io.ReadSeeker, offset int64, limit int) (part, error) {
	lead := min(offset, utf8.UTFMax-1)
	if _, err := r.Seek(offset-lead, io.SeekStart); err != nil {
		return part{}, err
	}
	data, err := io.ReadAll(io.LimitReader(r, lead+int64(limit)+utf8.UTFMax))
	if err != nil {
		return part{}, err
	}
	begin := characterAt(data, int(lead))
	end := characterAt(data, min(begin+limit, len(data)))
	if end == begin {
		_, size := utf8.DecodeRune(data[begin:])
		end = begin + size
	}
	return part{from: offset - lead + int64(begin), data: data[begin:end]}, nil
}

// characterAt is where the character begins that has the byte at a place: the
// place itself for bytes that are no text, and at the end.
func characterAt(data []byte, at int) int {
	for back := 1; back < utf8.UTFMax && back <= at && at < len(data); back++ {
		if _, size := utf8.DecodeRune(data[at-back:]); size > back {
			return at - back
		}
	}
	return at
}

// shown is the part as a model sees it, with where it is in a blob of that size.
func (p part) shown(size int64) string {
	text, how := string(p.data), ""
	if !utf8.Valid(p.data) {
		// Base64 takes four characters for three bytes.
		p.data = p.data[:min(len(p.data), max(1, defaultResultCap/4*3))]
		text, how = base64.StdEncoding.EncodeToString(p.data), " in base64"
	}
	end := p.from + int64(len(p.data))
	next := fmt.Sprintf("; the next begin at offset %d", end)
	if end >= size {
		next = "; these are the last"
	}
	return fmt.Sprintf("%s\n[bytes %d to %d of %d%s%s]", text, p.from, end, size, how, next)
}
