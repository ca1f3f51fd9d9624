package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
)

// minLength is the shortest value that is looked for in every form, in bytes.
const minLength = 8

// forms returns the different spellings under which a value is looked for. A
// short one in base64 or hex would match ordinary text.
func forms(value string) []string {
	all := append([]string{value}, percentForms(value)...)
	once := jsonForms(value)
	all = append(all, once...)
	for _, form := range once {
		if form != value {
			all = append(all, jsonForms(form)...)
		}
	}
	if len(value) >= minLength {
		lower := hex.EncodeToString([]byte(value))
		all = append(all, lower, strings.ToUpper(lower))
		all = append(all, base64Forms(value)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// What some encoders of JSON escape of ASCII, and those that do it by number.
const (
	wary        = `"&'+<>` + "`\x7f"
	jsonSpecial = wary + `\/`
)

// jsonForms are the spellings inside JSON strings: the shortest, the one that is
// safe inside HTML as of Go, the one of ASCII alone as of Python, and the wary
// one of .NET; each with plain and with escaped slashes.
func jsonForms(value string) []string {
	if strings.IndexFunc(value, func(c rune) bool { return c < ' ' || c >= 0x7F || strings.ContainsRune(jsonSpecial, c) }) < 0 {
		return []string{value}
	}
	var all []string
	if quoted, err := jsontext.AppendQuote(nil, value); err == nil {
		all = append(all, inner(quoted))
	}
	if quoted, err := json.Marshal(value); err == nil {
		all = append(all, inner(quoted))
	}
	for _, hexDigits := range []string{"0123456789abcdef", "0123456789ABCDEF"} {
		all = append(all, asciiJSON(value, "", hexDigits), asciiJSON(value, wary, hexDigits))
	}
	for _, form := range all {
		all = append(all, strings.ReplaceAll(form, "/", `\/`))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func inner(quoted []byte) string { return string(quoted[1 : len(quoted)-1]) }

// asciiJSON escapes what is not ASCII, and these characters, by number.
func asciiJSON(value, byNumber, hexDigits string) string {
	const short = "\"\\\b\f\n\r\t"
	out := make([]byte, 0, 2*len(value))
	for _, c := range value {
		if c >= 0x80 {
			for _, unit := range utf16.AppendRune(nil, c) {
				out = appendUnit(out, unit, hexDigits)
			}
			continue
		}
		i := strings.IndexByte(short, byte(c))
		switch {
		case strings.IndexByte(byNumber, byte(c)) >= 0, c < ' ' && i < 0:
			out = appendUnit(out, uint16(c), hexDigits)
		case i >= 0:
			out = append(out, '\\', `"\bfnrt`[i])
		default:
			out = append(out, byte(c))
		}
	}
	return string(out)
}

func appendUnit(to []byte, unit uint16, hexDigits string) []byte {
	return append(to, '\\', 'u', hexDigits[unit>>12], hexDigits[unit>>8&0xF], hexDigits[unit>>4&0xF], hexDigits[unit&0xF])
}

// percentForms are the spellings in URLs, with capital and small hex digits.
// Encoders differ in what they leave as it is: that of RFC 3986 and
// url.QueryEscape, encodeURIComponent, Python's quote, HTML forms,
// url.PathEscape, the path of url.URL, its userinfo, and encodeURI.
func percentForms(value string) []string {
	if percent(value, "") == value {
		return []string{value}
	}
	var all []string
	for _, plain := range []string{"-_.~", "-_.~!*'()", "-_.~/", "-_.*", "-_.~$&+=:@", "-_.~$&+,/:;=@", "-_.~$&+,;=", "-_.!~*'();,/?:@&=+$#"} {
		form := percent(value, plain)
		all = append(all, form, strings.ReplaceAll(form, "%20", "+"))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for _, form := range all {
		all = append(all, smallHex(form))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// percent encodes all bytes but letters, digits and the plain ones.
func percent(value, plain string) string {
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, 2*len(value))
	for _, c := range []byte(value) {
		if letter(c) || c >= '0' && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			out = append(out, c)
		} else {
			out = append(out, '%', digits[c>>4], digits[c&0xF])
		}
	}
	return string(out)
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
		standard := base64.RawStdEncoding.EncodeToString(shifted)[first:last]
		all = append(all, standard, strings.NewReplacer("+", "-", "/", "_").Replace(standard))
	}
	return all
}
