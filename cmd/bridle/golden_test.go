package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestOutputIsAsDocumented(t *testing.T) {
	path := recorded(t)
	for name, args := range map[string][]string{
		"runs.table":     {"runs"},
		"runs.wide":      {"runs", "-o", "wide"},
		"runs.json":      {"runs", "-json"},
		"runs.jsonl":     {"runs", "-o", "jsonl"},
		"runs.id":        {"-o", "id", "runs"},
		"runs-page.json": {"runs", "--limit", "1", "-before", "order-3", "-json"},
		"runs-page":      {"runs", "-limit=2"},
		"runs-cut":       {"runs", "-state", "cut,running"},
		"runs-none":      {"runs", "-thread", "nobody"},
		"show-done":      {"show", "order-1"},
		"show-failed":    {"show", "order-2"},
		"show-cut":       {"show", "order-3"},
		"show-cut.wide":  {"show", "order-3", "-o", "wide"},
		"show-cut.json":  {"show", "order-3", "-json"},
		"show-cut.id":    {"show", "order-3", "-o=id"},
		"export-done":    {"export", "order-1"},
		"export-cut":     {"export", "order-3", "-json"},
		"help":           {"help"},
		"help-runs":      {"runs", "-h"},
		"exit-codes":     {"help", "exit-codes"},
		"environment":    {"help", "environment"},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, shell{t: t}.want(exitDone, append(args, "-store", path)...))
		})
	}
}

func TestATerminalGetsColourAndShortCells(t *testing.T) {
	path := recorded(t)
	for name, env := range map[string]map[string]string{"terminal": nil, "no-color": {"NO_COLOR": "1"}, "dumb": {"TERM": "dumb"}} {
		golden(t, "runs."+name, shell{t: t, tty: true, env: env}.want(exitDone, "runs", "-store", path))
	}
	forced := shell{t: t, env: map[string]string{"CLICOLOR_FORCE": "1"}}
	if got := forced.want(exitDone, "runs", "-store", path); !strings.Contains(got.out, "\x1b[") {
		t.Errorf("no colour though forced: %s", got.out)
	}
	for _, format := range []string{"json", "jsonl", "id"} {
		if got := forced.want(exitDone, "runs", "-o", format, "-store", path); strings.Contains(got.out, "\x1b") {
			t.Errorf("%s is coloured: %q", format, got.out)
		}
	}
}

func TestJSONFormatsAreJSONAndNothingElse(t *testing.T) {
	path := recorded(t)
	for _, args := range [][]string{{"runs"}, {"show", "order-3"}, {"export", "order-3"}} {
		got := shell{t: t}.want(exitDone, append(args, "-json", "-store", path)...)
		if !json.Valid([]byte(got.out)) || got.err != "" {
			t.Errorf("%v: %s%s", args, got.out, got.err)
		}
	}
}

func TestNeitherSecretsNorSealsNorKeysAreExported(t *testing.T) {
	path := recorded(t)
	for _, id := range []string{"order-1", "order-2", "order-3"} {
		got := shell{t: t}.want(exitDone, "export", id, "-store", path)
		for _, bad := range []string{"4711", `"sig"`, `"key"`, id + ":step"} {
			if strings.Contains(got.out, bad) {
				t.Errorf("export of %s has %s: %s", id, bad, got.out)
			}
		}
		if !strings.Contains(got.out, `"$ref":{"connection":"shop","id":"e7"`) || !strings.Contains(got.out, `"name":"shop.pin"`) {
			t.Errorf("export of %s lost what it may say: %s", id, got.out)
		}
	}
}

func TestIdsMayBeShortened(t *testing.T) {
	s := shell{t: t, env: map[string]string{"BRIDLE_STORE": recorded(t)}}
	if got := s.want(exitUsage, "show", "order-"); !strings.Contains(got.err, `"order-1", "order-2", "order-3"`) {
		t.Errorf("ambiguous: %s", got.err)
	}
	s.want(exitMissing, "show", "order-4")
	s.want(exitMissing, "show", "")
}
