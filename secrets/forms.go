package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// forms returns the spellings under which a value is looked for. Some may be
// equal.
func forms(value string) []string {
	all := []string{value}
	all = append(all, jsonForms(value)...)
	all = append(all, urlForms(value)...)
	all = append(all, base64Forms(value)...)
	lower := hex.EncodeToString([]byte(value))
	return append(all, lower, strings.ToUpper(lower))
}

// jsonForms are the spellings inside JSON strings: the shortest, the one that
// is safe inside HTML, and those with an escaped slash.
func jsonForms(value string) []string {
	var all []string
	if quoted, err := jsontext.AppendQuote(nil, value); err == nil {
		all = append(all, inner(quoted))
	}
	if quoted, err := json.Marshal(value); err == nil {
		all = append(all, inner(quoted))
	}
	for _, form := range all {
		all = append(all, strings.ReplaceAll(form, "/", `\/`))
	}
	return all
}

func inner(quoted []byte) string { return string(quoted[1 : len(quoted)-1]) }

// urlForms are the spellings in queries and paths, with capital and small hex
// digits.
func urlForms(value string) []string {
	query, path := url.QueryEscape(value), url.PathEscape(value)
	all := []string{query, path, strings.ReplaceAll(query, "+", "%20")}
	for _, form := range all {
		all = append(all, smallHex(form))
	}
	return all
}

// smallHex writes the digits of percent-encoded bytes in small letters.
func smallHex(encoded string) string {
	out := []byte(encoded)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:], strings.ToLower(encoded[i+1:i+3]))
			i += 2
		}
	}
	return string(out)
}

// base64Forms are the characters that depend on the value alone, for each of
// the three places at which it can begin within a group of three bytes.
func base64Forms(value string) []string {
	var all []string
	for offset := range 3 {
		shifted := append(make([]byte, offset), value...)
		first, last := (offset*8+5)/6, len(shifted)*8/6
		all = append(all,
			base64.RawStdEncoding.EncodeToString(shifted)[first:last],
			base64.RawURLEncoding.EncodeToString(shifted)[first:last])
	}
	return all
}
