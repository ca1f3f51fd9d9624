package triggers

import (
	"encoding/json"
	"strconv"
)

// bytes is a standing as it is stored: as JSON. It is written four times for each
// event, half of them while everyone who writes waits, and this takes a fraction of
// what json.Marshal does.
func (s *standing) bytes() ([]byte, error) {
	if s.Err != nil || s.Reason != "" {
		return json.Marshal(s)
	}
	l := jsonLine{bytes: make([]byte, 0, 192)}
	l.text(`{"state":`, string(s.State))
	l.text(`,"trigger":`, string(s.Trigger))
	l.text(`,"thread":`, string(s.Thread))
	if l.odd {
		return json.Marshal(s)
	}
	b := strconv.AppendInt(append(l.bytes, `,"at":`...), int64(s.At), 10)
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
