package secrets_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bridle-dev/bridle/secrets"
)

// hundred registers a hundred random values of this length.
func hundred(tb testing.TB, length int) *secrets.Scrubber {
	s := secrets.NewScrubber()
	for i := range 100 {
		sum := sha256.Sum256(fmt.Append(nil, "value ", i))
		if err := s.AddSecret(secrets.NewValue(base64.StdEncoding.EncodeToString(sum[:])[:length])); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

const prose = "Some ordinary text of a page, nothing more: 4711 items at https://shop.example/cart?id=8f14e45f, each at 9.99. "

func BenchmarkString(b *testing.B) {
	for _, length := range []int{40, 8, 7, 6, 5, 4} {
		b.Run(fmt.Sprint(length), func(b *testing.B) {
			s := hundred(b, length)
			text := strings.Repeat(prose, 10000)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.String(text)
			}
		})
	}
}

func BenchmarkJSON(b *testing.B) {
	for name, text := range map[string]string{"plain": prose, "escaped": prose + "\n\"x\"", "tiny": "a\n"} {
		for _, length := range []int{40, 4} {
			b.Run(fmt.Sprintf("%s/%d", name, length), func(b *testing.B) {
				s := hundred(b, length)
				var items []map[string]any
				for i := range 10000 {
					items = append(items, map[string]any{"id": i, "text": text, "tags": []string{"home", "shop"}})
				}
				doc, err := json.Marshal(items)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(doc)))
				for b.Loop() {
					s.JSON(doc)
				}
			})
		}
	}
}

func BenchmarkRegister100(b *testing.B) {
	for b.Loop() {
		hundred(b, 40).String("")
	}
}

func BenchmarkRegister100OneByOne(b *testing.B) {
	for b.Loop() {
		s := secrets.NewScrubber()
		for i := range 100 {
			s.Add(fmt.Sprintf("sk-%d-%032x", i, i*7919))
			s.String("")
		}
	}
}
