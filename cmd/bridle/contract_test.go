package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/pool"
)

// TestTheContractIsWrittenDown holds docs/operating.md to what is printed.
func TestTheContractIsWrittenDown(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, v := range []any{runView{}, stepView{}, failureView{}, failure{}, approval{}, eventView{}, pool.Stray{}} {
		for i := range reflect.TypeOf(v).NumField() {
			name, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("the field %s of a %T is not documented", name, v)
			}
		}
	}
	for line := range strings.Lines(exitCodes) {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), " ")
		row := "| " + code + " | " + strings.TrimSpace(meaning)
		if !strings.Contains(text, row+" |") && !strings.Contains(strings.ReplaceAll(text, "`-timeout` (30 s)", "-timeout"), row+" |") {
			t.Errorf("the exit code %s is not documented as %q", code, row)
		}
	}
	for _, v := range verbs() {
		if v.name != "version" && v.name != "help" && !strings.Contains(text, "`"+v.name) {
			t.Errorf("the command %s is not documented", v.name)
		}
	}
}
