package refstest

import (
	"bytes"
	"io"
	"strings"
	"testing/iotest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
)

func contentCases() []testCase {
	return []testCase{
		{"RoundTrip", nil, func(k *kit) {
			for _, n := range []int{0, 1, 1000, 512<<10 - 1, 512 << 10, 512<<10 + 1, 1<<20 + 7} {
				content := pattern(n)
				kept := k.put(of("o"), content)
				if kept.Size != int64(n) {
					k.Errorf("size: got %d, want %d", kept.Size, n)
				}
				k.wantContent(kept, content)
			}
		}},
		{"DescriptionIsKept", nil, func(k *kit) {
			info := refs.BlobInfo{MIMEType: "text/plain; charset=\"ü\"", Sensitive: true, Owner: "o/../\x00<1>", Thread: "t\n1"}
			kept := k.put(info, []byte("x"))
			if kept.MIMEType != info.MIMEType || !kept.Sensitive || kept.Owner != info.Owner || kept.Thread != info.Thread {
				k.Errorf("got %+v, want what was given, %+v", kept, info)
			}
			if kept.Created.IsZero() || kept.Created.Location() != time.UTC {
				k.Errorf("created %v, want a time in UTC", kept.Created)
			}
			k.wantContent(kept, []byte("x"))
		}},
		{"IDsAreRandom", nil, func(k *kit) {
			seen := map[string]bool{}
			for range 20 {
				id := k.put(of("o"), []byte("same")).ID
				if seen[id] || len(id) < 22 {
					k.Errorf("id %q: seen before, or short of 128 bits", id)
				}
				if plain := strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"); plain != "" {
					k.Errorf("id %q: %q needs escaping in a URL", id, plain)
				}
				seen[id] = true
			}
		}},
		{"PutOverwritesNothing", nil, func(k *kit) {
			first := k.put(of("o"), []byte("first"))
			again := first
			again.Size, again.Created = 99, time.Unix(1, 0)
			second := k.put(again, []byte("second one"))
			if second.ID == first.ID || second.Size != 10 || second.Created.Equal(again.Created) {
				k.Errorf("the caller set what Put sets: %+v", second)
			}
			k.wantContent(first, []byte("first"))
		}},
		{"ContentIsCopied", nil, func(k *kit) {
			content := pattern(100)
			kept := k.put(of("o"), content)
			clear(content)
			read, _ := k.content(kept.ID)
			clear(read)
			r, _, err := k.blobs.Open(k.ctx, kept.ID)
			if err != nil {
				k.Fatalf("Open: %v", err)
			}
			defer r.Close()
			if _, err := io.Copy(scribbler{}, r); err != nil {
				k.Errorf("copying a blob: %v", err)
			}
			k.wantContent(kept, pattern(100))
		}},
		{"Seek", nil, checkSeek},
		{"AnyReader", nil, func(k *kit) {
			content := pattern(3000)
			for name, wrap := range map[string]func(io.Reader) io.Reader{
				"one byte at a time":    iotest.OneByteReader,
				"half of what is asked": iotest.HalfReader,
				"its end with data":     iotest.DataErrReader,
				"nothing at times":      func(r io.Reader) io.Reader { return &hesitant{r: r} },
			} {
				kept, err := k.blobs.Put(k.ctx, of("o"), wrap(bytes.NewReader(content)))
				if err != nil {
					k.Errorf("content that reads %s: %v", name, err)
					continue
				}
				k.wantContent(kept, content)
			}
		}},
		{"UnknownIDs", nil, func(k *kit) {
			kept := k.put(of("o"), []byte("x"))
			for _, id := range []string{"", ".", "..", "/", "../" + kept.ID, kept.ID + "/", kept.ID + "x", kept.ID[:len(kept.ID)-1],
				kept.ID + "\x00", strings.ToUpper(kept.ID) + "1", "\xff", strings.Repeat("x", 4000), kept.ID + "/00000000"} {
				k.wantGone(id)
			}
		}},
		{"BadDescriptions", nil, func(k *kit) {
			for what, change := range map[string]func(*refs.BlobInfo){
				"no owner":           func(b *refs.BlobInfo) { b.Owner = "" },
				"no thread":          func(b *refs.BlobInfo) { b.Thread = "" },
				"an odd owner":       func(b *refs.BlobInfo) { b.Owner = "\xff" },
				"a long MIME type":   func(b *refs.BlobInfo) { b.MIMEType = strings.Repeat("x", 256) },
				"a broken MIME type": func(b *refs.BlobInfo) { b.MIMEType = "text/\xc3" },
			} {
				info := of("o")
				change(&info)
				k.putError(what, info, strings.NewReader("x"), fault.BlobUnavailable)
			}
			k.collect("o", 0)
		}},
	}
}

func checkSeek(k *kit) {
	content := pattern(1<<20 + 100)
	r, info, err := k.blobs.Open(k.ctx, k.put(of("o"), content).ID)
	if err != nil {
		k.Fatalf("Open: %v", err)
	}
	defer r.Close()
	for _, at := range []int64{info.Size - 10, 0, 512<<10 - 3, info.Size, 7} {
		page := make([]byte, 10)
		pos, err := r.Seek(at, io.SeekStart)
		n, readErr := io.ReadFull(r, page)
		want := content[at:min(at+10, info.Size)]
		if err != nil || pos != at || !bytes.Equal(page[:n], want) || (readErr == nil) != (len(want) == 10) {
			k.Errorf("10 bytes at %d: got %d at %d, errors %v and %v", at, n, pos, err, readErr)
		}
	}
	if pos, err := r.Seek(-5, io.SeekEnd); pos != info.Size-5 || err != nil {
		k.Errorf("5 bytes before the end is %d, %v", pos, err)
	}
	if pos, err := r.Seek(-5, io.SeekCurrent); pos != info.Size-10 || err != nil {
		k.Errorf("10 bytes before the end is %d, %v", pos, err)
	}
	if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, content[info.Size-10:]) {
		k.Errorf("the last 10 bytes: got %d, %v", len(rest), err)
	}
	if _, err := r.Seek(-1, io.SeekStart); err == nil {
		k.Error("there is something before the beginning")
	}
	if _, err := r.Seek(100, io.SeekEnd); err == nil {
		if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			k.Errorf("beyond the end: %d bytes, %v, want EOF", n, err)
		}
	}
}

// scribbler writes to what it is given.
type scribbler struct{}

func (scribbler) Write(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// hesitant returns nothing every other time.
type hesitant struct {
	r     io.Reader
	calls int
}

func (h *hesitant) Read(p []byte) (int, error) {
	if h.calls++; h.calls%2 == 1 {
		return 0, nil
	}
	return h.r.Read(p)
}
