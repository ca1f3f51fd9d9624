package glob_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/internal/glob"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a.b/c", true},
		{"chat.post", "chat.post", true}, {"chat.post", "chat.posts", false},
		{"chat.*", "chat.post.now", true}, {"chat.*", "chat", false}, {"*.post", "chat.post", true},
		{"a*b*a", "aba", true}, {"a*b*a", "ab", false}, {"aa*aa", "aaa", false},
		{"a*a", "a", false}, {"**", "x", true}, {"a?c", "abc", false}, {"com.slack.admin.*", "com.slack.admin.users.invite", true},
	} {
		if got := glob.Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

// FuzzMatch holds Match against a regular expression made from the pattern.
func FuzzMatch(f *testing.F) {
	f.Add("a*b", "axxb")
	f.Add("*a*a*", "aa")
	f.Add("ui.*", "ui.tap")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		parts := strings.Split(pattern, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re, err := regexp.Compile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
		if err != nil || !isUTF8(pattern) || !isUTF8(name) {
			t.Skip("the regular expression works on characters")
		}
		if got, want := glob.Match(pattern, name), re.MatchString(name); got != want {
			t.Errorf("Match(%q, %q) = %v, want %v", pattern, name, got, want)
		}
	})
}

func isUTF8(s string) bool { return strings.ToValidUTF8(s, "") == s }
