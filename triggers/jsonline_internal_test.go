package triggers

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/provider"
)

// oddText has what JSON has to escape, and what it need not.
const oddText = "<a href=\"x\">&\\\n\t\x00\x7f\u2028\ufffdé\U0001F600</a>"

// everyMember is a message of which no member is left out.
func everyMember(text string) *stored {
	return &stored{ID: text + "1", Execution: provider.ExecutionID(text + "2"), Trigger: ID(text + "3"), Connection: "c4", Thread: provider.ThreadID(text + "5"),
		Event: Event{Kind: provider.EventOccurred, ID: provider.EventID(text + "6"), Type: text + "7", Cursor: Cursor(text + "8"), Time: time.Unix(1, 1)},
		At:    time.Unix(2, 120).In(time.FixedZone("", 3600)), Listened: text + "9", Large: 10, Unplaced: true, Kept: true}
}

func TestTheLineOfAMessageIsWhatJSONMarshalMakesOfIt(t *testing.T) {
	messages := map[string]*stored{"bare": {}, "everything": everyMember("x"), "odd text": everyMember(oddText)}
	for name, m := range messages {
		t.Run(name, func(t *testing.T) {
			line, ok := m.line(m.Large, 0)
			if !ok {
				t.Fatal("it is left to json.Marshal")
			}
			plain, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if err := json.Unmarshal(plain, &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-json.Marshal +line):\n%s", diff)
			}
		})
	}
}

func TestNoMemberOfAMessageIsForgotten(t *testing.T) {
	m := everyMember("x")
	for _, v := range []reflect.Value{reflect.ValueOf(*m), reflect.ValueOf(m.Event)} {
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; {
			case name == "Payload" || name == "Identity": // the one stands apart, the other is left to json.Marshal
			case v.Field(i).IsZero():
				t.Errorf("%s of %s is not compared with what json.Marshal makes of it", name, v.Type())
			}
		}
	}
}

func TestWhatALineCannotHoldIsLeftToJSONMarshal(t *testing.T) {
	for name, change := range map[string]func(*stored){
		"no text":      func(m *stored) { m.Event.ID = "1\xff" },
		"an identity":  func(m *stored) { m.Event.Identity = &provider.Identity{Instance: "i"} },
		"a large one":  func(m *stored) { m.Event.Payload = json.RawMessage(`"` + strings.Repeat("x", maxInline) + `"`) },
		"a small one":  func(m *stored) { m.Event.Payload = json.RawMessage(`"x"`) },
		"no payload":   func(*stored) {},
		"no JSON time": func(m *stored) { m.At = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		t.Run(name, func(t *testing.T) {
			m := everyMember("x")
			change(m)
			record, apart, err := m.bytes()
			plain := *m
			plain.Event.Payload, plain.Large = nil, len(apart)
			want, refused := json.Marshal(plain)
			if (err != nil) != (refused != nil) {
				t.Fatalf("%v, and json.Marshal says %v", err, refused)
			}
			if err != nil {
				return
			}
			if inline := string(m.Event.Payload[len(apart):]); string(record) != string(want)+"\n"+inline {
				t.Errorf("got %q, want %q and the payload", record, want)
			}
		})
	}
}

func TestTheInboxTakesForJSONWhatEncodingJSONDoes(t *testing.T) {
	for _, text := range []string{`{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", " [1, 2.0e-5 ,null] ", `{"a":`, "1 2", "\ufeff1", "-0", "01", "\"\x01\"", " ", "[tru]",
		strings.Repeat("[", maxStoredDepth) + strings.Repeat("]", maxStoredDepth), strings.Repeat("[", maxStoredDepth+1) + strings.Repeat("]", maxStoredDepth+1)} {
		if got, want := storable(&Event{Payload: []byte(text)}) == nil, json.Valid([]byte(text)); got != want {
			t.Errorf("%.40q: taken is %v, want %v", text, got, want)
		}
	}
}
