package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/store/bolt"
)

func TestMistakesAreTold(t *testing.T) {
	for _, args := range [][]string{
		{"nothing"}, {"runs", "x"}, {"show"}, {"show", "a", "b"}, {"runs", "-nothing"}, {"-nothing"}, {"runs", "-limit", "0"},
		{"runs", "-limit", "x"}, {"runs", "-o", "xml", "-store", "x"}, {"runs"}, {"runs", "-store", "a", "-socket", "b"}, {"approvals"}, {"approve", "x", "-store", "x"},
		{"runs", "-state", "asleep", "-store", "x"}, {"export", "a", "-o", "id", "-store", "x"}, {"approve", "a", "-scope", "ever"},
		{"approve", "a", "-form", "{"}, {"help", "nothing"},
	} {
		got := shell{t: t}.want(exitUsage, args...)
		if got.out != "" || !strings.HasPrefix(got.err, "bridle: ") || strings.Count(got.err, "\n") != 2 {
			t.Errorf("%v: %q, %q", args, got.out, got.err)
		}
	}
}

// wantError checks that an error under JSON is one object.
func wantError(t *testing.T, got said, code string) {
	t.Helper()
	var f failure
	if err := json.Unmarshal([]byte(got.err), &f); err != nil || f.Code != code || f.Message == "" || f.Hint == "" || f.Exit != got.code {
		t.Errorf("want %s, got %s: %v", code, got.err, err)
	}
	if got.out != "" || strings.Count(got.err, "\n") != 1 {
		t.Errorf("more than one line: %q, %q", got.out, got.err)
	}
}

func TestErrorsUnderJSONAreOneObject(t *testing.T) {
	path := recorded(t)
	for _, asked := range [][]string{{"-json"}, {"-o", "json"}, {"-o=jsonl"}, {"--json"}} {
		s := shell{t: t}
		wantError(t, s.want(exitUsage, append([]string{"nothing"}, asked...)...), "usage")
		wantError(t, s.want(exitMissing, append([]string{"show", "x", "-store", path}, asked...)...), "EXECUTION_UNKNOWN")
		wantError(t, s.want(exitUnreachable, append([]string{"runs", "-store", path + "x"}, asked...)...), "store_missing")
	}
}

func TestAStoreIsReadAndNeverChanged(t *testing.T) {
	path := recorded(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"runs"}, {"show", "order-3"}, {"export", "order-1"}, {"show", "none"}, {"approvals"}} {
		shell{t: t}.run(append(args, "-store", path)...)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file changed, %v", err)
	}
	if now, err := os.Stat(path); err != nil || !now.ModTime().Equal(info.ModTime()) || now.Mode() != info.Mode() {
		t.Errorf("was %v of %v, is %v, %v", info.Mode(), info.ModTime(), now, err)
	}
}

func TestAStoreThatCannotBeReadIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unused := filepath.Join(dir, "unused.db")
	s, err := bolt.Open(unused, nil)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]string{
		filepath.Join(dir, "none.db"): "store_missing",
		dir:                           "STORE_UNSUPPORTED",
		file("empty", ""):             "STORE_UNSUPPORTED",
		file("begun", strings.Repeat("\x00", 4096)):      "store_failed",
		file("other", strings.Repeat("something", 5000)): "STORE_UNSUPPORTED",
		unused: "no_ledger",
	} {
		before, _ := os.ReadFile(path)
		was, _ := os.Stat(path)
		wantError(t, shell{t: t}.want(exitUnreachable, "runs", "-json", "-store", path), code)
		after, _ := os.ReadFile(path)
		is, _ := os.Stat(path)
		if !bytes.Equal(before, after) || (was == nil) != (is == nil) || was != nil && was.Mode() != is.Mode() {
			t.Errorf("%s changed", path)
		}
	}
}

func TestAStoreThatIsOpenNamesTheSocketAsTheWay(t *testing.T) {
	path := recorded(t)
	s, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := shell{t: t}.want(exitUnreachable, "runs", "-json", "-store", path)
	wantError(t, got, "store_held")
	if !strings.Contains(got.err, "-socket") {
		t.Errorf("no remedy: %s", got.err)
	}
}

// answering serves a handler on a unix socket.
func answering(t *testing.T, h http.Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bridle") // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return path
}

func TestASocketThatDoesNotAnswerIsExplained(t *testing.T) {
	wantError(t, shell{t: t}.want(exitUnreachable, "runs", "-json", "-socket", filepath.Join(t.TempDir(), "none")), "socket_unreachable")
	foreign := answering(t, http.NotFoundHandler())
	got := shell{t: t}.want(exitUnreachable, "runs", "-socket", foreign)
	if strings.Count(got.err, "\n") != 1 {
		t.Errorf("got %q", got.err)
	}
	broken := answering(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"executions":[{`)) }))
	wantError(t, shell{t: t}.want(exitFailed, "runs", "-json", "-socket", broken), "answer_invalid")
}

func TestEntriesThatAreCutOffAreAnError(t *testing.T) {
	path := answering(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/entries") {
			_, _ = w.Write([]byte(`{"entry":{"path":"/a#1"}}` + "\n"))
			return
		}
		_, _ = w.Write([]byte(`{"execution":{"id":"x","state":"running"}}`))
	}))
	for _, verb := range []string{"show", "export"} {
		if got := (shell{t: t}).want(exitFailed, verb, "x", "-socket", path); !strings.Contains(got.err, "answer") {
			t.Errorf("%s: %s", verb, got.err)
		}
	}
}

func TestTimeIsBoundedAndInterruptsAreObeyed(t *testing.T) {
	path := answering(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	wantError(t, shell{t: t}.want(exitTimeout, "runs", "-json", "-socket", path, "-timeout", "20ms"), "timeout")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := (shell{t: t}).runIn(ctx, "runs", "-socket", path); got.code != exitInterrupted {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}
