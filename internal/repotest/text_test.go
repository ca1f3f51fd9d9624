package repotest

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// textRule judges the lines of files whose names match.
type textRule struct {
	files   string // pattern of base names
	pattern *regexp.Regexp
	why     string
}

// textRules are built of pieces, so that this file does not break them.
func textRules() []textRule {
	return []textRule{
		{"*", regexp.MustCompile(`registry\.` + `npmjs\.org|proxy\.` + `golang\.org|(?:deb|security)\.` + `debian\.org`),
			"a registry's host is named; installing must work with whatever mirror is set up. Leave it to the tool's configuration"},
		{"*", regexp.MustCompile(`(?:^|[\s"'=(:` + "`" + `])/(?:work|root|tmp/` + `helpers)/`),
			"a path of one machine; nobody else has it. Use a relative path or t.TempDir"},
		{"*.go", regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME|XX` + `X)\b`),
			"a note to come back later. Do it now, or write the gap down in an issue and in the comment that promises less"},
	}
}

func TestTextRules(t *testing.T) {
	for _, f := range repository(t) {
		report(t, checkText(f))
	}
}

func checkText(f textFile) []finding {
	var found []finding
	for _, r := range textRules() {
		if !match(r.files, path.Base(f.path)) {
			continue
		}
		for i, line := range bytes.Split(f.text, []byte("\n")) {
			if r.pattern.Match(line) {
				found = append(found, finding{fmt.Sprintf("%s:%d", f.path, i+1), r.why})
			}
		}
	}
	return found
}

func TestTextRulesFindBadText(t *testing.T) {
	tests := []struct{ name, file, text string }{
		{"registry", "package-lock.json", `"resolved": "https://registry.` + `npmjs.org/a"`},
		{"module proxy", "Makefile", "export GOPROXY=https://proxy." + "golang.org"},
		{"machine path", "README.md", "cd /ro" + "ot/x"},
		{"quoted machine path", "a.go", `const dir = "/wo` + `rk/x"`},
		{"note", "a.go", "// TO" + "DO: later"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := []string{tt.file + ":2"}
			if diff := cmp.Diff(want, places(checkText(textFile{tt.file, []byte("first\n" + tt.text + "\n")}))); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextRulesLeaveGoodTextAlone(t *testing.T) {
	for _, text := range []string{"the network/work/ratio", "a todo list", "https://example.com/root/x"} {
		if found := checkText(textFile{"a.go", []byte(text)}); len(found) != 0 {
			t.Errorf("%q: found %v", text, found)
		}
	}
}
