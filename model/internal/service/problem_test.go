package service

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRetryAfterIsReadInEveryForm(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const none = time.Duration(-1)
	for name, tt := range map[string]struct {
		header, value string
		want          time.Duration
	}{
		"seconds":        {"Retry-After", "30", 30 * time.Second},
		"now":            {"Retry-After", "0", 0},
		"part":           {"Retry-After", "0.5", 500 * time.Millisecond},
		"milliseconds":   {"Retry-After-Ms", "20", 20 * time.Millisecond},
		"date":           {"Retry-After", now.Add(time.Minute).Format(http.TimeFormat), time.Minute},
		"date gone by":   {"Retry-After", now.Add(-time.Minute).Format(http.TimeFormat), 0},
		"absent":         {"X", "1", none},
		"word":           {"Retry-After", "soon", none},
		"negative":       {"Retry-After", "-1", none},
		"no number":      {"Retry-After", "NaN", none},
		"without end":    {"Retry-After", "Inf", none},
		"beyond reason":  {"Retry-After", "1e300", none},
		"beyond a year":  {"Retry-After", "31622400", none},
		"empty":          {"Retry-After", "", none},
		"ms before secs": {"Retry-After-Ms", "0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := retryAfter(http.Header{tt.header: {tt.value}}, now); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestProblemsAreReadInLooseForms(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want Problem
	}{
		"whole":         {`{"error":{"type":"t","code":"c","message":"m"}}`, Problem{Type: "t", Code: "c", Message: "m"}},
		"code in depth": {`{"error":{"type":"t","message":"m","details":{"error_code":"c"}}}`, Problem{Type: "t", Code: "c", Message: "m"}},
		"number":        {`{"error":{"code":429}}`, Problem{Code: "429"}},
		"nulls":         {`{"error":{"type":null,"code":null,"message":"m"}}`, Problem{Message: "m"}},
		"odd details":   {`{"error":{"type":"t","details":"none"}}`, Problem{Type: "t"}},
		"text":          {`{"error":"m"}`, Problem{Message: "m"}},
		"list":          {`{"error":[1]}`, Problem{}},
		"nothing":       {`{}`, Problem{}},
		"page":          {`<html>`, Problem{}},
	} {
		t.Run(name, func(t *testing.T) {
			var got Problem
			got.Read([]byte(tt.body))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArgumentsKeepWhatTheModelWrote(t *testing.T) {
	for wrote, args := range map[string]string{
		`{"a": 1.0}`: `{"a": 1.0}`,
		`[1]`:        `[1]`,
		`{"a":`:      `"{\"a\":"`,
		`no "json"`:  `"no \"json\""`,
	} {
		if got := string(Args(wrote)); got != args {
			t.Errorf("%s is kept as %s, want %s", wrote, got, args)
		}
		if got := Written(Args(wrote)); got != wrote {
			t.Errorf("%s goes back as %s", wrote, got)
		}
	}
	if got := string(Args("")) + Written(nil); got != "{}{}" {
		t.Errorf("nothing is %s, want {} both ways", got)
	}
}
