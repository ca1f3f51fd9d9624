package gates_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
	"github.com/bridle-dev/bridle/store"
	"github.com/google/go-cmp/cmp"
)

func TestErrorsSayWhatMayHaveHappened(t *testing.T) {
	bare := errors.New("connection reset")
	for name, c := range map[string]struct {
		err   error
		codes []error
		outer fault.Code
	}{
		"bare":              {bare, []error{bare}, fault.OutcomeUnknown},
		"context":           {fmt.Errorf("call: %w", context.DeadlineExceeded), []error{context.DeadlineExceeded}, fault.OutcomeUnknown},
		"not sent":          {provider.NotSent(bare), []error{bare}, fault.NotSent},
		"unknown":           {provider.Unknown(bare), []error{bare}, fault.OutcomeUnknown},
		"refused":           {provider.Refused("E1", "no water"), nil, fault.OpFailed},
		"wrapped refusal":   {fmt.Errorf("kettle: %w", provider.Refused("E1", "no water")), []error{}, fault.OpFailed},
		"guarded":           {provider.Guarded("button", "pays"), []error{fault.Guarded}, fault.SteeringDenied},
		"unavailable":       {fault.New(fault.Unavailable, "gone"), nil, fault.Unavailable},
		"closed, not sent":  {fault.New(fault.Closed, "closed: %w", provider.NotSent(bare)), []error{fault.Closed}, fault.NotSent},
		"closed":            {fault.New(fault.Closed, "closed"), []error{fault.Closed}, fault.OutcomeUnknown},
		"of two, the worse": {errors.Join(provider.NotSent(bare), provider.Unknown(bare)), []error{fault.NotSent}, fault.OutcomeUnknown},
		"a foreign code":    {fault.New(fault.ArgsInvalid, "hm"), []error{fault.ArgsInvalid}, fault.OutcomeUnknown},
	} {
		p := newPeer(`{}`)
		p.err = c.err
		before := c.err.Error()
		out := gates.New(nil).Call(t.Context(), p.request("echo", `{}`))
		fe, ok := out.Err.(*fault.Error)
		if !ok || fe.Code != c.outer || fe.Connection != "notes" || fe.Op != "echo" {
			t.Errorf("%s: got %#v", name, out.Err)
		}
		for _, code := range c.codes {
			if !errors.Is(out.Err, code) {
				t.Errorf("%s: %v does not match %v", name, out.Err, code)
			}
		}
		//allow:errtext the chain places an error and must not write to the provider's own
		if !out.Sent || out.Gate != "" || c.err.Error() != before {
			t.Errorf("%s: %+v; the provider's error reads %v", name, out, c.err)
		}
	}
}

func TestAPanicOfAProviderIsContained(t *testing.T) {
	r := newPeer(``).request("echo", `{}`)
	r.Target.Send = func(context.Context, *provider.CallRequest) (*provider.CallResult, error) { panic("hunter2hunter2") }
	s := secrets.NewScrubber()
	s.Add("hunter2hunter2")
	out := gates.New(&gates.Options{Scrubber: s}).Call(t.Context(), r)
	//allow:errtext the text is where the credential would be
	if !errors.Is(out.Err, fault.OutcomeUnknown) || !errors.Is(out.Err, fault.Panicked) || strings.Contains(out.Err.Error(), "hunter2") {
		t.Errorf("got %v", out.Err)
	}
}

func TestResultsAreChecked(t *testing.T) {
	text := []provider.Content{{Type: provider.ContentText, Text: "done"}}
	for name, c := range map[string]struct {
		op, value string
		valid     bool
		path      string
	}{
		"fits":                       {"notes.add", `{"id":1}`, true, ""},
		"B042 content is no part":    {"notes.add", `{"id":"a","more":[]}`, true, ""},
		"does not fit":               {"notes.add", `{}`, false, "/id"},
		"none, though declared":      {"notes.add", ``, false, ""},
		"null, though declared":      {"notes.add", `null`, false, ""},
		"none":                       {"echo", ``, true, ""},
		"null":                       {"echo", `null`, true, ""},
		"not JSON":                   {"echo", `{`, false, ""},
		"repeated name":              {"echo", `{"a":1,"a":2}`, true, ""},
		"B038 exact":                 {"echo", `9007199254740993`, true, ""},
		"too deep":                   {"echo", strings.Repeat("[", 600) + strings.Repeat("]", 600), false, strings.Repeat("/0", 128) + "…"},
		"a number that is no number": {"notes.add", `{"id":1e999999999}`, false, "/id"},
	} {
		p := newPeer(c.value)
		p.reply.Content = text
		args := map[string]string{"notes.add": `{"text":"x"}`, "echo": `{}`}[c.op]
		out := gates.New(nil).Call(t.Context(), p.request(c.op, args))
		if c.valid {
			want := strings.Replace(c.value, "null", "", 1)
			if out.Err != nil || string(out.Value) != want || len(out.Content) != 1 {
				t.Errorf("%s: got %s, %v", name, out.Value, out.Err)
			}
			continue
		}
		fe, ok := out.Err.(*fault.Error)
		if !ok || fe.Code != fault.ResultInvalid || fe.Hint == "" || out.Value != nil || !out.Sent || out.Gate != "" {
			t.Errorf("%s: got %+v", name, out)
		} else if len(fe.Issues) != 1 || fe.Issues[0].Path != c.path {
			t.Errorf("%s: issues %+v", name, fe.Issues)
		}
	}
}

func TestAProviderThatReturnsNothingIsNoSuccess(t *testing.T) {
	r := newPeer(``).request("echo", `{}`)
	r.Target.Send = func(context.Context, *provider.CallRequest) (*provider.CallResult, error) { return nil, nil }
	if out := gates.New(nil).Call(t.Context(), r); !errors.Is(out.Err, fault.ResultInvalid) {
		t.Errorf("got %v", out.Err)
	}
	r.Target.Send = nil
	if out := gates.New(nil).Call(t.Context(), r); !errors.Is(out.Err, fault.NotSent) || out.Sent {
		t.Errorf("got %+v", out)
	}
}

func TestASecretComesBackNowhere(t *testing.T) {
	const secret = "tok-4711-abcdef"
	s := secrets.NewScrubber()
	s.Add(secret)
	chain := gates.New(&gates.Options{Scrubber: s})
	p := newPeer(`{"id":1,"echo":"Bearer ` + secret + `","` + secret + `":1}`)
	p.reply.Content = []provider.Content{
		{Type: provider.ContentText, Text: "used " + secret},
		{Type: provider.ContentLink, URI: "https://x/?t=" + secret, Name: secret, Title: secret},
		{Type: provider.ContentImage, MIMEType: "image/png", Data: []byte("\x89PNG" + secret)},
		{Type: provider.ContentImage, MIMEType: "image/png", Data: []byte("\x89PNG")},
	}
	r := p.request("notes.add", `{"text":"x"}`)
	var progress []provider.Progress
	r.Progress = func(pr provider.Progress) { progress = append(progress, pr) }
	r.Target.Send = func(ctx context.Context, req *provider.CallRequest) (*provider.CallResult, error) {
		req.Progress(provider.Progress{Done: 1, Message: "with " + secret})
		return p.Call(ctx, req)
	}
	out := chain.Call(t.Context(), r)
	if out.Err != nil || len(out.Content) != 4 || len(progress) != 1 || len(out.Content[3].Data) == 0 {
		t.Fatalf("got %+v, %+v", out, progress)
	}
	event, err := chain.Event(t.Context(), &gates.Request{}, provider.Event{Type: "notes.changed", Payload: json.RawMessage(`{"a":"` + secret + `"}`)})
	if err != nil {
		t.Error(err)
	}
	p.err = provider.Refused("E", "bad token "+secret)
	failed := chain.Call(t.Context(), p.request("echo", `{}`))
	if !errors.Is(failed.Err, fault.OpFailed) {
		t.Errorf("got %v", failed.Err)
	}
	lost := chain.Error(provider.NotSent(errors.New("dial " + secret)))
	if !errors.Is(lost, fault.NotSent) {
		t.Errorf("got %v", lost)
	}
	all := fmt.Sprintf("%s %s %+v %v %s %v %v", out.Value, out.Content, progress, event, event.Payload, failed.Err, lost)
	if strings.Contains(all, secret) || strings.Count(all, "<redacted>") < 8 {
		t.Errorf("got %s", all)
	}
}

func TestLongRepliesAreCut(t *testing.T) {
	chain := gates.New(&gates.Options{MaxResult: 100, MaxArgs: 50})
	p := newPeer(``)
	p.reply.Content = []provider.Content{
		{Type: provider.ContentText, Text: strings.Repeat("a", 60)},
		{Type: provider.ContentText, Text: strings.Repeat("é", 40)},
		{Type: provider.ContentText, Text: "gone"},
	}
	out := chain.Call(t.Context(), p.request("echo", `{}`))
	want := []provider.Content{
		{Type: provider.ContentText, Text: strings.Repeat("a", 60)},
		{Type: provider.ContentText, Text: strings.Repeat("é", 20) + "\n[cut: 40 of 80 bytes shown]\n[1 more blocks left out]"},
	}
	if diff := cmp.Diff(want, out.Content); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	p.reply.Content = []provider.Content{{Type: provider.ContentImage, MIMEType: "image/png", Data: make([]byte, 101)}}
	out = chain.Call(t.Context(), p.request("echo", `{}`))
	if len(out.Content) != 1 || out.Content[0].Data != nil || out.Content[0].Text == "" {
		t.Errorf("got %+v", out.Content)
	}
	p.reply = provider.CallResult{Value: json.RawMessage(`"` + strings.Repeat("x", 99) + `"`)}
	if out = chain.Call(t.Context(), p.request("echo", `{}`)); !errors.Is(out.Err, fault.ResultInvalid) {
		t.Errorf("a value over the cap: %v", out.Err)
	}
	p.err = provider.Refused("", strings.Repeat("x", 1<<20))
	if out = chain.Call(t.Context(), p.request("echo", `{}`)); !errors.Is(out.Err, fault.OpFailed) || len(out.Err.Error()) > 40<<10 {
		t.Errorf("an error of %d bytes", len(out.Err.Error()))
	}
	p = newPeer(``)
	refused(t, p, chain.Call(t.Context(), p.request("echo", `{"a":"`+strings.Repeat("x", 50)+`"}`)), "schema", fault.ArgsInvalid)
}

func TestGoToolsPassTheSameGates(t *testing.T) {
	boom := errors.New("boom")
	deny := hook("deny", func(c *gates.Call) (gates.Decision, error) {
		if strings.Contains(string(c.Args), "bad") {
			return gates.Decision{Verdict: gates.Deny}, nil
		}
		return gates.Decision{}, nil
	})
	s := secrets.NewScrubber()
	s.Add("hunter2hunter2")
	chain := gates.New(&gates.Options{Hooks: []gates.Hook{deny}, Scrubber: s})
	schema := gates.NewSchema(json.RawMessage(addSchema))
	for name, c := range map[string]struct {
		args, gate, value string
		err               error
		panics            bool
		code              error
	}{
		"works":        {args: `{ "text":"a"}`, value: `{"said":"<redacted>"}`},
		"does not fit": {args: `{}`, gate: "schema", code: fault.ArgsInvalid},
		"denied":       {args: `{"text":"bad"}`, gate: "hooks", code: fault.SteeringDenied},
		"fails":        {args: `{"text":"a"}`, err: boom, code: fault.OpFailed},
		"its own code": {args: `{"text":"a"}`, err: fault.New(fault.Unavailable, "x"), code: fault.Unavailable},
		"panics":       {args: `{"text":"a"}`, panics: true, code: fault.Panicked},
	} {
		invoked, written := 0, 0
		out := chain.Tool(t.Context(), &gates.ToolRequest{
			Call:   gates.Call{Op: "say", Args: json.RawMessage(c.args), Source: gates.SourceModel},
			Args:   schema,
			Before: func(context.Context, *gates.Call, func(store.Tx) error) error { written++; return nil },
			Invoke: func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
				invoked++
				if c.panics {
					panic("oh no")
				}
				if string(args) != `{"text":"a"}` {
					t.Errorf("%s: got %s", name, args)
				}
				return json.RawMessage(`{"said":"hunter2hunter2"}`), c.err
			},
		})
		if out.Gate != c.gate || c.code == nil && out.Err != nil || c.code != nil && !errors.Is(out.Err, c.code) || string(out.Value) != c.value {
			t.Errorf("%s: got %+v", name, out)
		}
		if want := map[bool]int{true: 1}[c.gate == ""]; invoked != want || written != want {
			t.Errorf("%s: invoked %d, written %d, want %d", name, invoked, written, want)
		}
		if c.err == boom && !errors.Is(out.Err, boom) {
			t.Errorf("the cause is lost: %v", out.Err)
		}
	}
}

func TestSchemaChecksForOthers(t *testing.T) {
	s := gates.NewSchema(json.RawMessage(addSchema))
	if issues := s.Check(json.RawMessage(`{"text":"a"}`)); issues != nil {
		t.Errorf("got %v", issues)
	}
	for _, bad := range []string{`{}`, `{`, ``} {
		if issues := s.Check(json.RawMessage(bad)); len(issues) != 1 {
			t.Errorf("%q: got %v", bad, issues)
		}
	}
	if issues := gates.NewSchema(json.RawMessage(`{"type":7}`)).Check(json.RawMessage(`1`)); len(issues) != 1 {
		t.Errorf("an unusable schema: got %v", issues)
	}
	if gates.NewSchema(nil).Check(json.RawMessage(`[]`)) != nil || gates.NewSchema(nil).Usable() != nil {
		t.Error("no schema refuses something")
	}
}

func TestNoErrorIsLongerThanALogCanTake(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	for name, err := range map[string]error{
		"refused": provider.Refused("", long), "unknown": provider.Unknown(errors.New(long)),
		"no code": errors.New(long), "cancelled": fmt.Errorf("%s: %w", long, context.Canceled),
	} {
		p := newPeer("")
		p.err = err
		out := gates.New(nil).Call(t.Context(), p.request("echo", `{"text":"a"}`))
		if out.Err == nil || len(fmt.Sprint(out.Err)) > 64<<10 {
			t.Errorf("%s: %d bytes", name, len(fmt.Sprint(out.Err)))
		}
		if name == "cancelled" && !errors.Is(out.Err, context.Canceled) {
			t.Errorf("%s lost what it matches", name)
		}
	}
}

func TestAnErrorThatIsCutKeepsItsFieldsAndCodes(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	inner := fault.New(fault.Guarded, "%s: %w", long, context.Canceled).WithHint("%s", long)
	inner.PeerCode = "E7"
	for range 1000 {
		inner.Issues = append(inner.Issues, fault.Issue{Path: "/a", Message: long})
	}
	p := newPeer("")
	p.err = fmt.Errorf("%s: %w", long, errors.Join(errors.New(long), inner))
	out := gates.New(nil).Call(t.Context(), p.request("echo", `{}`))
	if !errors.Is(out.Err, fault.SteeringDenied) || !errors.Is(out.Err, fault.Guarded) || !errors.Is(out.Err, context.Canceled) {
		t.Error("codes are lost")
	}
	var kept *fault.Error
	for _, cause := range causes(out.Err) {
		if fe, ok := cause.(*fault.Error); ok && fe.PeerCode != "" {
			kept = fe
		}
	}
	if kept == nil || kept.PeerCode != "E7" || len(kept.Issues) == 0 || kept.Issues[0].Path != "/a" {
		t.Errorf("fields are lost: %.200v", kept)
	}
	record, err := json.Marshal(out.Err)
	if err != nil || len(record) > 256<<10 || len(out.Err.Error()) > 64<<10 {
		t.Errorf("%d bytes of record, %d of text, %v", len(record), len(out.Err.Error()), err)
	}
	if lost := gates.New(nil).Error(p.err); !errors.Is(lost, fault.Guarded) || len(lost.Error()) > 64<<10 {
		t.Errorf("an error beside a call: %d bytes", len(lost.Error()))
	}
	if len(inner.Issues[0].Message) != len(long) || len(inner.Hint) != len(long) {
		t.Error("the provider's own error was changed")
	}
}

// causes are err and all that it wraps.
func causes(err error) []error {
	all := []error{err}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if next := err.Unwrap(); next != nil {
			all = append(all, causes(next)...)
		}
	case interface{ Unwrap() []error }:
		for _, next := range err.Unwrap() {
			all = append(all, causes(next)...)
		}
	}
	return all
}

func TestAnEventThatIsNoJSONIsInvalid(t *testing.T) {
	const secret = "tok-4711-abcdef"
	s := secrets.NewScrubber()
	s.Add(secret)
	chain := gates.New(&gates.Options{Scrubber: s, MaxResult: 100})
	for name, payload := range map[string]string{
		"not JSON": `{"a":` + secret, "empty": " ", "too deep": strings.Repeat("[", 600),
		"too long": `"` + strings.Repeat("x", 99) + `"`,
	} {
		ev, err := chain.Event(t.Context(), &gates.Request{}, provider.Event{Type: "notes.changed", ID: "7", Cursor: "c7", Payload: json.RawMessage(payload)})
		fe, ok := err.(*fault.Error)
		if !ok || fe.Code != fault.ResultInvalid || fe.Op != "notes.changed" || len(fe.Issues) != 1 || strings.Contains(fmt.Sprint(fe), secret) {
			t.Errorf("%s: got %v", name, err)
		}
		if ev.Payload != nil || ev.ID != "7" || ev.Cursor != "c7" {
			t.Errorf("%s: got %+v", name, ev)
		}
	}
	for _, payload := range []json.RawMessage{nil, json.RawMessage(`null`), json.RawMessage(`{"a":1,"a":2}`)} {
		if ev, err := chain.Event(t.Context(), &gates.Request{}, provider.Event{Type: "notes.changed", Payload: payload}); err != nil || string(ev.Payload) != string(payload) {
			t.Errorf("%s: got %s, %v", payload, ev.Payload, err)
		}
	}
}

func TestAPanicsValueIsBounded(t *testing.T) {
	p := newPeer("")
	r := p.request("echo", `{}`)
	r.Target.Send = func(context.Context, *provider.CallRequest) (*provider.CallResult, error) {
		panic(strings.Repeat("x", 1<<20) + "\n")
	}
	out := gates.New(nil).Call(t.Context(), r)
	if !errors.Is(out.Err, fault.Panicked) || len(out.Err.Error()) > 1000 {
		t.Errorf("%d bytes", len(out.Err.Error()))
	}
}
