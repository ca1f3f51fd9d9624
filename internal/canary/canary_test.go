package canary_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/model/scripted"
)

// TestNoSecretGetsOut plants every secret, plays, and looks everywhere.
func TestNoSecretGetsOut(t *testing.T) {
	v := newVault()
	w := newWorld(t, script(v), v)
	w.play()
	w.checkPlayed(t)
	for _, out := range sinks() {
		t.Run(out.name, func(t *testing.T) {
			all := out.out(t, w)
			if len(all) == 0 || !out.bare && !replaced(all) {
				t.Error("nothing came out there, or nothing was replaced")
			}
			for _, s := range sources() {
				if !slices.Contains(out.may, s.name) {
					look(t, s.name, v.values[s.name], all)
				}
			}
		})
	}
}

// replaced tells that there was something to replace.
func replaced(all []exhibit) bool {
	return slices.ContainsFunc(all, func(e exhibit) bool { return strings.Contains(e.text, "redacted") })
}

// TestWhatAToolFoundIsUntouched looks for a credential that nobody registered.
func TestWhatAToolFoundIsUntouched(t *testing.T) {
	v := newVault()
	w := newWorld(t, scripted.New(scripted.CallTool("web_find", nil), scripted.Say(found)), v)
	w.start()
	if got := w.mustCall("web", "find", nil); string(got) != quoted(found) {
		t.Errorf("the step got %s", got)
	}
	resp, err := w.say("Look for it.")
	if err != nil || resp.Text != found {
		t.Errorf("the answer is %+v, %v", resp, err)
	}
	last := w.model.Requests()[1].Items
	if got := last[len(last)-1].Text(); got != found {
		t.Errorf("the model was told %s", got)
	}
}

// look reports where a secret is, once for each form.
func look(t *testing.T, source, secret string, all []exhibit) {
	t.Helper()
	for form, needle := range formsOf(secret) {
		for _, e := range all {
			if at := strings.Index(e.text, needle); at >= 0 {
				t.Errorf("the secret of %q is there, %s, in %s: …%q", source, form, e.where, e.text[max(0, at-60):min(len(e.text), at+len(needle)+20)])
				break
			}
		}
	}
}
