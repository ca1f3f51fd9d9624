package service

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// read pulls everything out of a stream: each event as "name|data".
func read(r io.Reader) (all []string, err error) {
	in := newEvents(r)
	for {
		ev, err := in.next()
		if err != nil {
			return all, err
		}
		all = append(all, ev.name+"|"+string(ev.data))
	}
}

func TestEventsAreReadAsTheStandardSays(t *testing.T) {
	for name, tt := range map[string]struct {
		stream string
		want   []string
		end    error
	}{
		"empty":                    {"", nil, io.EOF},
		"blank lines":              {"\n\r\n\n", nil, io.EOF},
		"one":                      {"event: a\ndata: x\n\n", []string{"a|x"}, io.EOF},
		"carriage returns":         {"event: a\r\ndata: x\r\n\r\n", []string{"a|x"}, io.EOF},
		"no space":                 {"data:x\n\n", []string{"|x"}, io.EOF},
		"only one space goes":      {"data:  x\n\n", []string{"| x"}, io.EOF},
		"several lines":            {"data: x\ndata: y\n\n", []string{"|x\ny"}, io.EOF},
		"an empty first line":      {"data:\ndata: y\n\n", []string{"|\ny"}, io.EOF},
		"colons in data":           {"data: x:y\n\n", []string{"|x:y"}, io.EOF},
		"unknown fields":           {"id: 7\nretry: 1\ndata: x\n\n", []string{"|x"}, io.EOF},
		"a comment is heard":       {": hm\n\ndata: x\n\n", []string{"|", "|x"}, io.EOF},
		"a comment within is not":  {"data: x\n: hm\ndata: y\n\n", []string{"|x\ny"}, io.EOF},
		"no blank line at the end": {"data: x\n", []string{"|x"}, io.EOF},
		"cut within a line":        {"data: x\n\ndata: y", []string{"|x"}, io.ErrUnexpectedEOF},
		"a huge line":              {"data: " + strings.Repeat("x", maxEvent), nil, errEventTooLarge},
		"a huge event":             {strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 17), nil, errEventTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.stream), iotest.HalfReader(strings.NewReader(tt.stream))} {
				got, err := read(r)
				if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.end) {
					t.Errorf("ended with %v, want %v; events (-want +got):\n%s", err, tt.end, diff)
				}
			}
		})
	}
}

func TestAStreamWithoutEndIsCut(t *testing.T) {
	line := ": hm" + strings.Repeat(" ", 1<<20) + "\n\n"
	_, err := read(io.MultiReader(repeat(line, maxStream/len(line)+2)...))
	if !errors.Is(err, errStreamTooLarge) {
		t.Errorf("ended with %v, want %v", err, errStreamTooLarge)
	}
}

func repeat(s string, n int) []io.Reader {
	all := make([]io.Reader, n)
	for i := range all {
		all[i] = strings.NewReader(s)
	}
	return all
}

func TestErrorsOfTheReaderComeThrough(t *testing.T) {
	broken := errors.New("broken")
	if _, err := read(io.MultiReader(strings.NewReader("data: x\n"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("ended with %v, want %v", err, broken)
	}
}

// FuzzEvents: an event that is written is read, whatever came before it.
func FuzzEvents(f *testing.F) {
	f.Add("event: a\ndata: x\n\n", "hello")
	f.Add(": hm\r\n\r\n", "{\"type\":\"ping\"}")
	f.Add("data", "x\ny")
	f.Fuzz(func(t *testing.T, before, data string) {
		if strings.ContainsAny(data, "\r") || data == "" {
			t.Skip("the format cannot carry a carriage return, and nothing is no event")
		}
		lines := strings.ReplaceAll(data, "\n", "\ndata: ")
		got, err := read(strings.NewReader(fmt.Sprintf("%s\n\nevent: own\ndata: %s\n\n", before, lines)))
		if !errors.Is(err, io.EOF) || len(got) == 0 || got[len(got)-1] != "own|"+data {
			t.Errorf("got %q, %v, want the event at the end", got, err)
		}
	})
}
