package store_test

import (
	"testing"

	"github.com/bridle-dev/bridle/store"
)

// Bounds and Contains are two ways to say the same: they must agree.
func TestBoundsAgreeWithContains(t *testing.T) {
	words := []string{"", "\x00", "a", "a\x00", "ab", "b", "\xfe\xff", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff", "z"}
	for _, prefix := range words {
		for _, from := range words {
			for _, to := range words {
				r := store.Range{Prefix: prefix, From: from, To: to}
				low, high := r.Bounds()
				for _, key := range words {
					if got, want := key >= low && (high == "" || key < high), r.Contains(key); got != want {
						t.Errorf("%#v: bounds %q, %q contain %q = %v, want %v", r, low, high, key, got, want)
					}
				}
			}
		}
	}
}

func FuzzBoundsAgreeWithContains(f *testing.F) {
	f.Add("a", "", "", "ab")
	f.Add("\xff", "a", "\xff\xff", "\xff\x00")
	f.Fuzz(func(t *testing.T, prefix, from, to, key string) {
		r := store.Range{Prefix: prefix, From: from, To: to}
		low, high := r.Bounds()
		if got, want := key >= low && (high == "" || key < high), r.Contains(key); got != want {
			t.Errorf("%#v: bounds %q, %q contain %q = %v, want %v", r, low, high, key, got, want)
		}
	})
}
