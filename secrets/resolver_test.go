package secrets_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/google/go-cmp/cmp"
)

// resolve returns the value, or "unknown" or "refused".
func resolve(t *testing.T, r secrets.Resolver, use secrets.Use) string {
	t.Helper()
	v, err := r.Resolve(t.Context(), use)
	if err == nil {
		return v.Reveal()
	}
	fe, ok := errors.AsType[*fault.Error](err)
	if !ok || !errors.Is(err, fault.SecretUnavailable) || !v.IsZero() {
		t.Fatalf("%v: got %v, %v", use, v, err)
	}
	fallback := secrets.Map{use.Ref: secrets.NewValue("fallback")}
	if v, err := secrets.First(r, fallback).Resolve(t.Context(), use); err == nil {
		if fe.Hint == "" {
			t.Errorf("%v: no hint in %v", use, err)
		}
		return strings.Replace(v.Reveal(), "fallback", "unknown", 1)
	}
	return "refused"
}

func TestMapResolves(t *testing.T) {
	m := secrets.Map{"a": secrets.NewValue("value of a"), "short": secrets.NewValue("abc"), "none": {}}
	for ref, want := range map[secrets.Ref]string{"a": "value of a", "b": "unknown", "": "unknown", "short": "refused", "none": "refused"} {
		if got := resolve(t, m, secrets.Use{Ref: ref}); got != want {
			t.Errorf("%q: got %s, want %s", ref, got, want)
		}
	}
}

func TestEnvIsLookedUpWhenAsked(t *testing.T) {
	r := secrets.Env("BRIDLE_TEST_")
	t.Setenv("BRIDLE_TEST_APP_PASSWORD", "first value")
	t.Setenv("BRIDLE_TEST_EMPTY", "")
	t.Setenv("BRIDLE_TEST_BAD", "x")
	t.Setenv("BRIDLE_TEST_", "the prefix alone")
	for ref, want := range map[secrets.Ref]string{
		"app.password": "first value", "app-password": "first value", "APP_PASSWORD": "first value", "app": "unknown", "empty": "unknown",
		"": "unknown", "bad": "refused",
	} {
		if got := resolve(t, r, secrets.Use{Ref: ref}); got != want {
			t.Errorf("%q: got %s, want %s", ref, got, want)
		}
	}
	t.Setenv("BRIDLE_TEST_APP_PASSWORD", "second value")
	if got := resolve(t, r, secrets.Use{Ref: "app.password"}); got != "second value" {
		t.Errorf("after a change: got %s", got)
	}
}

func TestSecretsOfAnEnvironmentAreKnownByTheirNames(t *testing.T) {
	environ := []string{
		"MY_API_KEY=key-4711", "DB_PASSWORD=hunter2", "PGPASSWORD=hunter22", "AWS_SECRET_ACCESS_KEY=a/b+c=d", "github_token=ghp_xyz",
		"SECRET_KEY_BASE=0123abc", "MYSQL_PWD=pwd-value", "NPM_AUTH=basic-auth", "TWICE_TOKEN=first", "TWICE_TOKEN=second",
		"AWS_ACCESS_KEY_ID=AKIA1234", "SERVICE_TOKEN_URL=abcdefgh", "API_KEY_ENDPOINT=https://x.example", "AUTH_KEY=https://x.example/y",
		"SHORT_KEY=abc", "FEATURE_AUTH=disabled", "OTHER_TOKEN=TRUE", "PWD=/home/dora", "OLDPWD=/home/dora/x", "KEY_FILE=key.pem",
		"TLS_KEY=/etc/tls/key.pem", "SSH_AUTH_SOCK=agent.1", "SSH_PUBLIC_KEY=ssh-rsa", "MONKEY=banana", "HOME=secret-home", "=x=y", "NOVALUE_KEY",
		"GONE_KEY=value-before", "GONE_KEY=", "BINARY_KEY=\xff\xff\xff\xff",
	}
	got := map[secrets.Ref]string{}
	for ref, v := range secrets.SecretsIn(environ) {
		got[ref] = v.Reveal()
	}
	want := map[secrets.Ref]string{
		"MY_API_KEY": "key-4711", "DB_PASSWORD": "hunter2", "PGPASSWORD": "hunter22", "AWS_SECRET_ACCESS_KEY": "a/b+c=d",
		"GITHUB_TOKEN": "ghp_xyz", "SECRET_KEY_BASE": "0123abc", "MYSQL_PWD": "pwd-value", "NPM_AUTH": "basic-auth", "TWICE_TOKEN": "second",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	r := secrets.FromEnviron(environ)
	for ref, want := range map[secrets.Ref]string{
		"DB_PASSWORD": "hunter2", "db.password": "hunter2", "home": "unknown", "aws.access.key.id": "unknown", "github_token": "ghp_xyz",
	} {
		if got := resolve(t, r, secrets.Use{Ref: ref}); got != want {
			t.Errorf("%q: got %s, want %s", ref, got, want)
		}
	}
}

// write makes a file with its directories.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDirReadsFilesAndNothingOutside(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "secrets")
	for name, content := range map[string]string{
		"../outside": "outside value", "plain": "plain value", "line": "line value\n", "dos": "dos value\r\n", "two": "two lines\n\n",
		"return": "bare return\r", "app/password": "nested value", "short": "abc\n", "empty": "", "big": strings.Repeat("x", 64*1024) + "\n",
		"bigger": strings.Repeat("x", 64*1024+1), "..data/linked": "linked value", "binary": "\xff\xfe\xff\xfe",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	for link, target := range map[string]string{"linked": "..data/linked", "escape": "../outside", "dangling": "nothing"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	r := secrets.Dir(dir)
	for ref, want := range map[secrets.Ref]string{
		"plain": "plain value", "line": "line value", "dos": "dos value", "two": "two lines\n", "return": "bare return\r",
		"app/password": "nested value", "short": "refused", "empty": "refused", "big": strings.Repeat("x", 64*1024), "bigger": "refused",
		"linked": "linked value", "escape": "refused", "dangling": "unknown", "binary": "refused", "app": "unknown", "missing": "unknown",
		"": "unknown", ".": "unknown", "..": "unknown", "../outside": "unknown", "app/../../outside": "unknown", "/etc/passwd": "unknown",
		secrets.Ref(filepath.Join(parent, "outside")): "unknown", "a\x00b": "refused",
	} {
		if got := resolve(t, r, secrets.Use{Ref: ref}); got != want {
			t.Errorf("%q: got %s, want %s", ref, fault.Quote(got), fault.Quote(want))
		}
	}
	if got := resolve(t, secrets.Dir(filepath.Join(parent, "missing")), secrets.Use{Ref: "plain"}); got != "refused" {
		t.Errorf("a missing directory: got %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Resolve(ctx, secrets.Use{Ref: "plain"}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

func TestFirstGoesOnOnlyFromTheUnknown(t *testing.T) {
	down := errors.New("the vault is down")
	failing := secrets.ResolverFunc(func(_ context.Context, use secrets.Use) (secrets.Value, error) {
		if use.Ref == "vault" {
			return secrets.Value{}, fmt.Errorf("asking: %w", down)
		}
		return secrets.Value{}, fmt.Errorf("not mine: %w", secrets.Unknown(use.Ref))
	})
	last := secrets.Map{"vault": secrets.NewValue("the wrong one"), "a": secrets.NewValue("value of a")}
	r := secrets.First(secrets.Map{}, failing, secrets.First(), last)
	if _, err := r.Resolve(t.Context(), secrets.Use{Ref: "vault"}); !errors.Is(err, down) {
		t.Errorf("a failure: %v", err)
	}
	if got := resolve(t, r, secrets.Use{Ref: "a"}); got != "value of a" {
		t.Errorf("got %s", got)
	}
	if got := resolve(t, r, secrets.Use{Ref: "b"}); got != "unknown" {
		t.Errorf("got %s", got)
	}
	for _, err := range []error{secrets.Unknown("a"), secrets.Check(secrets.NewValue("x"))} {
		if !errors.Is(err, fault.SecretUnavailable) {
			t.Errorf("%v has no code", err)
		}
	}
}

func TestRestrictAllowsOnlyItsUses(t *testing.T) {
	m := secrets.Map{"a": secrets.NewValue("value of a"), "b": secrets.NewValue("value of b")}
	use := secrets.Use{Ref: "a", Connection: "app", Op: "ui.fill", Field: "/text"}
	for _, tt := range []struct {
		name string
		uses []secrets.Use
		use  secrets.Use
		want string
	}{
		{"nothing", nil, use, "unknown"},
		{"anything", []secrets.Use{{}}, use, "value of a"},
		{"exactly", []secrets.Use{use}, use, "value of a"},
		{"by pattern", []secrets.Use{{Ref: "a", Connection: "a*", Op: "ui.*", Field: "*/text"}}, use, "value of a"},
		{"by the second", []secrets.Use{{Ref: "b"}, {Op: "ui.fill"}}, use, "value of a"},
		{"another name", []secrets.Use{{Ref: "b"}}, use, "unknown"},
		{"another connection", []secrets.Use{{Ref: "a", Connection: "other"}}, use, "refused"},
		{"another operation", []secrets.Use{{Ref: "a", Op: "ui.tap"}}, use, "refused"},
		{"another field", []secrets.Use{{Ref: "a", Field: "/other"}}, use, "refused"},
		{"an unknown name", []secrets.Use{{}}, secrets.Use{Ref: "c"}, "unknown"},
	} {
		if got := resolve(t, secrets.Restrict(m, tt.uses...), tt.use); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	uses := []secrets.Use{{Ref: "b"}}
	r := secrets.Restrict(m, uses...)
	uses[0] = secrets.Use{}
	if got := resolve(t, r, use); got != "unknown" {
		t.Error("the caller's slice is still in use")
	}
}

func ExampleFirst() {
	dir, err := os.MkdirTemp("", "secrets")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "db.password"), []byte("from a file\n"), 0o600); err != nil {
		panic(err)
	}
	r := secrets.First(
		secrets.Restrict(secrets.Map{"app.password": secrets.NewValue("from a map")}, secrets.Use{Ref: "app.*", Connection: "app"}),
		secrets.Dir(dir),
	)
	for _, use := range []secrets.Use{{Ref: "db.password", Connection: "db"}, {Ref: "app.password", Connection: "app"}, {Ref: "app.password", Connection: "db"}} {
		v, err := r.Resolve(context.Background(), use)
		fmt.Println(v, v.Reveal(), errors.Is(err, fault.SecretUnavailable))
	}
	// Output:
	// <redacted> from a file false
	// <redacted> from a map false
	// <redacted>  true
}

func ExampleSecretsIn() {
	found := secrets.SecretsIn([]string{"DB_PASSWORD=hunter2", "DB_HOST=db.example", "AWS_ACCESS_KEY_ID=AKIA4711"})
	fmt.Println(slices.Collect(maps.Keys(found)), found["DB_PASSWORD"])
	// Output: [DB_PASSWORD] <redacted>
}

func ExampleExtract() {
	args, err := json.Marshal(map[string]any{
		"password": secrets.Ref("app.password"),                   // written by the program
		"remark":   json.RawMessage(`{"$secret":"app.password"}`), // from somewhere else
	})
	if err != nil {
		panic(err)
	}
	plain, places, err := secrets.Extract(args)
	fmt.Println(string(plain))
	fmt.Println(places, err)
	// Output:
	// {"password":{"$secret":"app.password"},"remark":{"$secret":"app.password"}}
	// [{/password app.password}] <nil>
}
