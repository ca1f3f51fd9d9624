package secrets

import (
	"context"
	"os"
	"slices"
	"strings"
)

// Env resolves from the environment of this process, looked up each time: the
// variable is the prefix and the name in capitals, with "_" for everything that
// is neither letter nor digit. With prefix "MYAPP_", "app.password" is
// MYAPP_APP_PASSWORD. A variable that is empty counts as unknown.
//
// With an empty prefix a reference can name any variable.
func Env(prefix string) Resolver {
	return ResolverFunc(func(_ context.Context, use Use) (Value, error) {
		value := os.Getenv(prefix + variable(use.Ref))
		if use.Ref == "" || value == "" {
			return Value{}, Unknown(use.Ref)
		}
		return checked(use.Ref, NewValue(value))
	})
}

// variable is the part of an environment variable's name that is from a
// reference.
func variable(ref Ref) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			return c
		}
		return '_'
	}, string(ref))
}

// FromEnviron resolves from those variables of environ, in the form of
// os.Environ, that [SecretsIn] takes for secrets. References name them as with
// [Env] without a prefix: "db.password" and "DB_PASSWORD" are both DB_PASSWORD.
func FromEnviron(environ []string) Resolver {
	found := SecretsIn(environ)
	return ResolverFunc(func(_ context.Context, use Use) (Value, error) {
		v, ok := found[Ref(variable(use.Ref))]
		if !ok {
			return Value{}, Unknown(use.Ref)
		}
		return v, nil
	})
}

// SecretsIn returns the variables of environ, in the form of os.Environ, that
// look like secrets by their names: a word such as KEY, TOKEN or PASSWORD
// between underscores, and a last word that does not tell of something else, as
// in AWS_ACCESS_KEY_ID. Values that [Check] refuses, URLs, absolute paths, and
// words of settings such as "disabled" are left out. Of a variable that occurs
// twice the last counts, as in os/exec.
//
// It is a guess, good for registering what must not show up. A DSN with a
// password in it is not found.
func SecretsIn(environ []string) Map {
	found := Map{}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !secretVariable(name) {
			continue
		}
		delete(found, Ref(variable(Ref(name))))
		if v := NewValue(value); Check(v) == nil && !ordinary(value) {
			found[Ref(variable(Ref(name)))] = v
		}
	}
	return found
}

// secretVariable judges by the words of a variable's name.
func secretVariable(name string) bool {
	words := strings.FieldsFunc(strings.ToUpper(name), func(c rune) bool { return c == '_' || c == '-' || c == '.' })
	if len(words) == 0 || slices.Contains(words, "PUBLIC") || slices.Contains(words, "PUB") {
		return false
	}
	return !harmlessEnding(words[len(words)-1]) && slices.ContainsFunc(words, secretWord)
}

// secretWord knows words alone, and those that are written together with others
// as in PGPASSWORD. PWD alone is the working directory, whose value is a path.
func secretWord(word string) bool {
	switch word {
	case "KEY", "PWD", "PASS", "AUTH", "PAT", "CREDENTIAL", "CREDENTIALS", "CREDS":
		return true
	}
	for _, ending := range []string{"PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "APIKEY", "ACCESSKEY", "PRIVATEKEY"} {
		if strings.HasSuffix(word, ending) {
			return true
		}
	}
	return false
}

// harmlessEnding knows the last words of variables that describe a secret, or
// tell where it is.
func harmlessEnding(word string) bool {
	switch word {
	case "ID", "IDS", "URL", "URI", "ENDPOINT", "HOST", "PORT", "ADDR", "ADDRESS", "DOMAIN", "REGION", "ISSUER", "AUDIENCE",
		"PATH", "FILE", "DIR", "SOCK", "NAME", "USER", "USERNAME", "ALIAS", "EMAIL", "HEADER", "SCOPE", "SCOPES",
		"TYPE", "MODE", "METHOD", "ALGORITHM", "ALG", "FORMAT", "VERSION", "PROVIDER", "PREFIX", "SIZE", "LENGTH", "LIMIT",
		"COUNT", "TTL", "TIMEOUT", "EXPIRY", "EXPIRES", "ENABLED", "DISABLED", "REQUIRED":
		return true
	}
	return false
}

// ordinary recognises values that are settings, whatever their variable's name.
func ordinary(value string) bool {
	switch strings.ToLower(value) {
	case "none", "auto", "default", "optional", "required", "enabled", "enable", "disabled", "disable", "always", "never",
		"true", "false", "null", "empty", "unset", "undefined", "changeme":
		return true
	}
	scheme, rest, ok := strings.Cut(value, "://")
	return absolutePath(value) || ok && rest != "" && !strings.ContainsAny(scheme, " /?#@")
}
