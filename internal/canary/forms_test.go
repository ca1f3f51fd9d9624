package canary_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"
)

// minWhole is from how many bytes on a secret is looked for in every form.
const minWhole = 8

// formsOf are the forms in which a secret must not show up. The list is written
// from what encoders do, and knows nothing of how the library looks for them.
func formsOf(secret string) map[string]string {
	forms := map[string]string{
		"plain": secret, "url query": url.QueryEscape(secret), "url path": url.PathEscape(secret),
		"url component": strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"),
		"json":          inJSON(secret, true), "json without html": inJSON(secret, false), "json ascii": inASCII(secret),
		"json in json": inJSON(inJSON(secret, false), false), "json html in json": inJSON(inJSON(secret, true), false),
		"go": strings.Trim(fmt.Sprintf("%q", secret), `"`),
	}
	if len(secret) < minWhole {
		return forms
	}
	forms["hex"], forms["HEX"] = hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))
	for before := range 3 {
		forms[fmt.Sprint("base64 after ", before)] = inBase64(secret, base64.RawStdEncoding, before)
		forms[fmt.Sprint("base64url after ", before)] = inBase64(secret, base64.RawURLEncoding, before)
	}
	// What a text was cut at is no form, but no less of a leak.
	forms["its beginning"], forms["its end"] = secret[:endLength], secret[len(secret)-endLength:]
	return forms
}

// inJSON is a text inside a JSON string.
func inJSON(text string, html bool) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(html)
	if err := e.Encode(text); err != nil {
		panic(err)
	}
	return strings.Trim(strings.TrimSpace(out.String()), `"`)
}

// inASCII is a text inside a JSON string as encoders write it that escape all but
// ASCII.
func inASCII(text string) string {
	var out strings.Builder
	for _, r := range inJSON(text, false) {
		if r < 0x80 {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// inBase64 are the digits of a text that depend on nothing else, when so many
// bytes precede it.
func inBase64(text string, encoding *base64.Encoding, before int) string {
	digits := encoding.EncodeToString([]byte(strings.Repeat("-", before) + text))
	return digits[(8*before+5)/6 : 8*(before+len(text))/6]
}

func TestFormsAreThoseOfEncoders(t *testing.T) {
	secret := "K0token1\"<é /+2secret3"
	if got := formsOf(secret); len(got) < 19 {
		t.Errorf("only %d forms", len(got))
	}
	for before := range 3 {
		whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", before) + secret + "tail"))
		if form := inBase64(secret, base64.RawStdEncoding, before); !strings.Contains(whole, form) || len(form) < 15 {
			t.Errorf("after %d bytes: %s is not in %s", before, form, whole)
		}
	}
	if got, want := inASCII(secret), `K0token1\"<\u00e9 /+2secret3`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
