package triggers_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/triggers"
)

// FileChanged is the payload of "file.changed".
type FileChanged struct {
	Name string `json:"name"`
}

// watch tells of files in a folder that are new or were written to since. The
// cursor is what it has seen: the time and the name of the file that changed
// last. Files that keep an old time, as copies may, are not noticed.
func watch(dir string, every time.Duration) func(context.Context, provider.Cursor, func(context.Context, triggers.Emission) error) error {
	return func(ctx context.Context, after provider.Cursor, emit func(context.Context, triggers.Emission) error) error {
		for {
			changed, err := changedSince(dir, after)
			if err != nil {
				return err
			}
			for _, e := range changed {
				if err := emit(ctx, e); err != nil {
					return err
				}
				after = e.Cursor
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(every):
			}
		}
	}
}

// changedSince lists files by the time of their last change. That time is part
// of the id, so that each change is an event of its own.
func changedSince(dir string, after provider.Cursor) ([]triggers.Emission, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var changed []triggers.Emission
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // gone again, or no file
		}
		seen := provider.Cursor(fmt.Sprintf("%020d %s", info.ModTime().UnixNano(), f.Name()))
		if seen > after {
			changed = append(changed, triggers.Emission{Type: "file.changed", ID: provider.EventID(seen), Cursor: seen,
				Time: info.ModTime(), Payload: FileChanged{f.Name()}})
		}
	}
	slices.SortFunc(changed, func(a, b triggers.Emission) int { return cmp.Compare(a.Cursor, b.Cursor) })
	return changed, nil
}

// A source that watches a folder, taken up again where it stood. A harness does
// the reading and keeps the cursor; here it is done by hand.
func ExampleNewSource_fileWatcher() {
	dir, err := os.MkdirTemp("", "inbox")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	source := triggers.NewSource([]triggers.EventType{triggers.Declare[FileChanged]("file.changed")},
		&triggers.SourceOptions{Start: watch(dir, 10*time.Millisecond)})

	var cursor provider.Cursor
	for _, name := range []string{"invoice.pdf", "letter.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			fmt.Println(err)
		}
		conns, err := source.Connect(ctx, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		sub, err := conns[0].(provider.Listener).Listen(ctx, &provider.ListenRequest{Event: "file.changed", After: cursor})
		if err != nil {
			fmt.Println(err)
			return
		}
		for e, err := range sub.Events() {
			f, _ := provider.Decode[FileChanged](e)
			fmt.Println(f.Name, err)
			cursor = e.Cursor
			break
		}
		_ = conns[0].Release(ctx) // the program ends, and begins again later
	}
	// Output:
	// invoice.pdf <nil>
	// letter.txt <nil>
}
