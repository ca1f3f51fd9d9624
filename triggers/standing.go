package triggers

import (
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// bytes is a standing as it is stored: as JSON. It is written four times for each
// event, half of them while everyone who writes waits, and this takes a fraction of
// what json.Marshal does.
func (s *standing) bytes() ([]byte, error) {
	if s.Err != nil || s.Reason != "" {
		return json.Marshal(s)
	}
	b := make([]byte, 0, 192)
	for _, field := range [...]struct{ name, text string }{{"{\"state\":", string(s.State)}, {",\"trigger\":", string(s.Trigger)}, {",\"thread\":", string(s.Thread)}} {
		b = append(b, field.name...)
		b, _ = jsontext.AppendQuote(b, field.text) // what is no text is replaced, as by json.Marshal
	}
	b = strconv.AppendInt(append(b, ",\"at\":"...), int64(s.At), 10)
	b = strconv.AppendInt(append(b, ",\"updated\":"...), int64(s.Updated), 10)
	if s.Attempts != 0 {
		b = strconv.AppendInt(append(b, ",\"attempts\":"...), int64(s.Attempts), 10)
	}
	if s.Begun {
		b = append(b, ",\"begun\":true"...)
	}
	if s.Next != 0 {
		b = strconv.AppendInt(append(b, ",\"next\":"...), int64(s.Next), 10)
	}
	return append(b, '}'), nil
}
