package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/model/scripted"
	"github.com/bridle-dev/bridle/provider/inmemory"
	"github.com/bridle-dev/bridle/secrets"
)

func TestSettingsThatMeanNothingAreRefused(t *testing.T) {
	sink := gates.StoreSink(nil)
	for name, c := range map[string]struct {
		config harness.Config
		code   fault.Code
	}{
		"a negative approval timeout":          {harness.Config{ApprovalTimeout: -time.Second}, fault.HarnessInvalid},
		"a nil model":                          {harness.Config{Model: (*scripted.Model)(nil)}, fault.HarnessInvalid},
		"a nil approver":                       {harness.Config{Approver: gates.ApproverFunc(nil)}, fault.HarnessInvalid},
		"a nil resolver":                       {harness.Config{Secrets: secrets.ResolverFunc(nil)}, fault.HarnessInvalid},
		"a required record without connection": {harness.Config{Audit: gates.Audit{Sinks: []gates.Sink{sink}, RequiredFor: []string{"ping"}}}, fault.HarnessInvalid},
		"an unknown determinism":               {harness.Config{Connections: connection.Set{"a": {Provider: ops("x"), Determinism: "sure"}}}, fault.ConnectionInvalid},
	} {
		c.config.Name = name
		_, err := harness.New(c.config)
		fe, ok := errors.AsType[*fault.Error](err)
		if !ok || fe.Code != c.code || fe.Hint == "" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestGrantsThatComeToNothingAreToldAtOnce(t *testing.T) {
	send := inmemory.Func(take)
	p := inmemory.New(inmemory.Options{Surface: "mail", Operations: map[string]inmemory.Operation{"send": send}})
	known := secrets.Map{"t": secrets.NewValue("0123456789")}
	for place, want := range map[string]string{"sned.text": "no operation", "send.txt": "a field", "send.text": ""} {
		h := open(t, harness.Config{Secrets: known, Connections: connection.Set{"mail": {Provider: p, ModelSecrets: map[secrets.Ref]string{"t": place}}}})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		told := past(t, h, func(ev event.Event) bool { return ev.Type == event.Warning })
		if (len(told) == 0) != (want == "") || want != "" && !strings.Contains(told[0].Text, want) {
			t.Errorf("%s: told %v", place, told)
		}
	}
}

func TestAModelSeesWhereASecretMayGo(t *testing.T) {
	m := scripted.New(scripted.Say("done"))
	p := inmemory.New(inmemory.Options{Surface: "mail", Operations: map[string]inmemory.Operation{"send": inmemory.Func(take)}})
	h := open(t, harness.Config{Model: m, Secrets: secrets.Map{"t": secrets.NewValue("0123456789")},
		Connections: connection.Set{"mail": {Provider: p, ModelSecrets: map[secrets.Ref]string{"t": "send.text"}}}})
	if _, err := answers(t, h); err != nil {
		t.Fatal(err)
	}
	tool := m.Requests()[0].Tools[0]
	schema := gates.NewSchema(tool.Args)
	for args, fits := range map[string]bool{`{"text":"plain"}`: true, `{"text":{"$secret":"t"}}`: true, `{"text":{"$secret":"other"}}`: false, `{"text":7}`: false} {
		if got := len(schema.Check([]byte(args))) == 0; got != fits {
			t.Errorf("%s fits the schema that the model sees: %t", args, got)
		}
	}
}

type mail struct {
	Text string `json:"text"`
}

func take(context.Context, *inmemory.Call, mail) (bool, error) { return true, nil }
