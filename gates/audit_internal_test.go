package gates

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bridle-dev/bridle/internal/schema"
)

// fillRecord sets every field below v to something of its own.
func fillRecord(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%d<é\u2028\"\\\x01>", *n))
	case reflect.Int64:
		v.SetInt(math.MaxInt64 - int64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillRecord(v.Index(i), n)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 31, 12, 0, 0, 120_000, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fillRecord(v.Field(i), n)
		}
	default:
		panic("a field of kind " + v.Kind().String())
	}
}

func TestTheCanonicalRecordIsItsJSON(t *testing.T) {
	var full Record
	fillRecord(reflect.ValueOf(&full).Elem(), new(int))
	invalid := Record{Op: "a\xff\xfeb", Error: "\xff", Time: time.Now().In(time.FixedZone("there", 3600))}
	for name, r := range map[string]Record{"full": full, "empty": {}, "invalid UTF-8": invalid} {
		t.Run(name, func(t *testing.T) {
			r = r.clipped()
			r.Hash = ""
			loose, err := json.Marshal(&r)
			if err != nil {
				t.Fatal(err)
			}
			want, _, issue := schema.Canonical(loose, maxRecordDepth)
			if issue != nil {
				t.Fatal(issue)
			}
			if got := r.canonical(); string(got) != string(want) {
				t.Errorf("canonical\n got %s\nwant %s", got, want)
			}
		})
	}
}

func TestClippingTwiceChangesNothing(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("é", 500), strings.Repeat("x", 256), strings.Repeat("\xff", 300), "a\xff"} {
		for limit := range 260 {
			once := clip(text, limit+3)
			if twice := clip(once, limit+3); twice != once || len(once) > limit+3 || !utf8.ValidString(once) {
				t.Fatalf("limit %d: %q, then %q", limit+3, once, twice)
			}
		}
	}
}
