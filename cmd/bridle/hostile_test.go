package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store/bolt"
)

func hostile() []string {
	return []string{"a\ndone  order-9", "a\r\x1b[2K", "\x1b[2J\x1b[1;1H", "\u202eback\u202c", "\u2066x\u2069", "a\tb\vc\fd", "x  done", "\xff\xfe",
		"\u009b31m", "\u3164\u3164done", "e" + strings.Repeat("\u0301", 40), "\u00a0\u2003x", "\x07\x00", "\u2028x\u2029", "\U000e0041"}
}

// hostileStore has every one of the texts wherever one can be.
func hostileStore(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.db")
	s, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := ledger.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	broken := &fault.Error{Code: fault.Code(text), Connection: text, Op: text, Hint: text, PeerCode: text}
	g, err := l.Begin(t.Context(), ledger.Execution{ID: "x", Thread: provider.ThreadID(text), Step: text}, nil, nil)
	if err == nil {
		err = g.Pending(t.Context(), ledger.Entry{Path: "/" + text, Kind: text, Connection: text, Op: text, Key: provider.Key(text), Args: quoted,
			Source: text, Lease: text, Approval: text, Task: provider.TaskID(text), Identity: provider.Identity{Surface: text, Instance: text, Epoch: text}}, nil)
	}
	if err == nil {
		err = g.Settle(t.Context(), ledger.Entry{Path: "/b" + text, Output: quoted, Err: broken})
	}
	if err == nil {
		err = g.End(t.Context(), ledger.Failed, quoted, broken, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// wantTame fails if text has a character that does more than being seen.
func wantTame(t *testing.T, what, text string, lines int) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && (!unicode.IsPrint(r) || blank(r)) {
			t.Errorf("%s has %U at %d: %q", what, r, i, text)
			return
		}
	}
	if got := strings.Count(text, "\n"); lines > 0 && got != lines {
		t.Errorf("%s has %d lines, want %d: %q", what, got, lines, text)
	}
}

func TestHostileTextForgesNoOutput(t *testing.T) {
	for _, text := range hostile() {
		path := hostileStore(t, text)
		for _, tty := range []bool{false, true} {
			s := shell{t: t, tty: tty, env: map[string]string{"NO_COLOR": "1"}}
			for format, lines := range map[string][3]int{"table": {2, 6, 5}, "wide": {2, 6, 0}, "json": {0, 0, 5}, "jsonl": {1, 2, 0}, "id": {1, 2, 0}} {
				for i, args := range [][]string{{"runs"}, {"show", "x"}, {"export", "x"}} {
					got := s.run(append(args, "-o", format, "-store", path)...)
					if i == 2 && lines[2] == 0 {
						continue
					}
					if got.code != exitDone {
						t.Fatalf("%v: %s", args, got.err)
					}
					wantTame(t, strings.Join(args, " ")+" "+format, got.out, lines[i])
					wantTame(t, "stderr", got.err, 0)
					if columns := strings.Split(got.out, "\n"); i == 0 && format == "table" && !tty && len(fields(columns[1])) != 7 {
						t.Errorf("%q has %d columns: %q", text, len(fields(columns[1])), columns[1])
					}
				}
			}
		}
	}
}

// fields are the columns of a line: two spaces part them.
func fields(line string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(line, "  ", "\t"), func(r rune) bool { return r == '\t' })
}

func TestHostileTextSurvivesJSON(t *testing.T) {
	for _, text := range hostile() {
		var got struct {
			Runs []struct{ Thread string }
		}
		out := shell{t: t}.want(exitDone, "runs", "-json", "-store", hostileStore(t, text)).out
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.Runs[0].Thread != strings.ToValidUTF8(text, "\ufffd") && text != "\xff\xfe" {
			t.Errorf("%q came as %q, %v", text, got.Runs, err)
		}
	}
}

func TestAHostileSocketForgesNoOutput(t *testing.T) {
	for _, text := range hostile() {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		path := answering(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error":` + string(quoted) + `,"code":` + string(quoted) + `,"hint":` + string(quoted) + `}`))
		}))
		for _, args := range [][]string{{"runs"}, {"show", text}, {"approvals"}, {"deny", text}, {"abort", text}} {
			got := shell{t: t}.want(exitRefused, append(args, "-socket", path, "-o", "id")...)
			wantTame(t, args[0], got.err, 2)
			got = shell{t: t}.want(exitRefused, append(args, "-socket", path, "-json")...)
			wantTame(t, args[0], got.err, 1)
		}
	}
}
