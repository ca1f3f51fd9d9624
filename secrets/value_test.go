package secrets_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/secrets"
)

func TestAValueShowsNothing(t *testing.T) {
	const secret = "hunter2hunter2"
	v := secrets.NewValue(secret)
	type exported struct{ V secrets.Value }
	type hidden struct{ v secrets.Value }
	var shown bytes.Buffer
	for _, x := range []any{v, &v, exported{v}, &exported{v}, hidden{v}, &hidden{v}, []secrets.Value{v}, map[string]secrets.Value{"k": v},
		[]hidden{{v}}, secrets.Map{"k": v}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%t", "%p", "%T", "%08.3f", "%c", "%U"} {
			fmt.Fprintf(&shown, verb+"\n", x)
		}
		fmt.Fprintln(&shown, x)
		for _, handler := range []slog.Handler{slog.NewTextHandler(&shown, nil), slog.NewJSONHandler(&shown, nil)} {
			slog.New(handler).Info("x", "value", x)
		}
		if raw, err := json.Marshal(x); err == nil {
			shown.Write(raw)
		}
		if raw, err := xml.Marshal(x); err == nil {
			shown.Write(raw)
		}
		_ = gob.NewEncoder(&shown).Encode(x)
	}
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprintf("% x", secret), fmt.Sprint([]byte(secret))} {
		if strings.Contains(shown.String(), form) {
			t.Errorf("%q is shown", form)
		}
	}
	if got := fmt.Sprintf("%v %s %q %x %#v", v, v, v, v, v); got != strings.TrimSpace(strings.Repeat("<redacted> ", 5)) {
		t.Errorf("printed as %s", got)
	}
	if raw := marshal(t, v); string(raw) != `"\u003credacted\u003e"` {
		t.Errorf("JSON is %s", raw)
	}
	if _, err := v.GobEncode(); !errors.Is(err, fault.SecretUnavailable) {
		t.Errorf("gob: %v", err)
	}
	if v.Reveal() != secret || v.IsZero() {
		t.Error("the value is lost")
	}
}

func TestTheZeroValueIsNone(t *testing.T) {
	for _, v := range []secrets.Value{{}, secrets.NewValue("")} {
		if !v.IsZero() || v.Reveal() != "" || v.String() != "<redacted>" {
			t.Errorf("%v is something", v)
		}
	}
}

func TestCheckRefusesWhatCannotBeKept(t *testing.T) {
	for value, good := range map[string]bool{
		"": false, "abc": false, "ünz": true, "abcd": true, "\xff\xfe\xfd\xfc": false, "redacted": false, "null": false, "alse": false,
		strings.Repeat("x", 64*1024): true, strings.Repeat("x", 64*1024+1): false, "/etc/passwd": true, "<redacted>!": true,
	} {
		err := secrets.Check(secrets.NewValue(value))
		if (err == nil) != good || err != nil && !errors.Is(err, fault.SecretUnavailable) {
			t.Errorf("%s: %v", fault.Quote(value), err)
		}
		//allow:errtext that the value is not in it
		if err != nil && len(value) > 4 && value != "redacted" && strings.Contains(err.Error(), value[:5]) {
			t.Errorf("the value is in %v", err)
		}
	}
}
