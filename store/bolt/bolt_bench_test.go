package bolt_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

func BenchmarkUpdate(b *testing.B) {
	s, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	value := make([]byte, 200)
	for n := 0; b.Loop(); n++ {
		err := s.Update(b.Context(), func(tx store.Tx) error { return tx.Put("b", fmt.Sprintf("%012d", n), value) })
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(b.Context(), func(tx store.Tx) error { return tx.Put("b", "k", make([]byte, 200)) }); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := s.View(b.Context(), func(tx store.Tx) error { _, _, err := tx.Get("b", "k"); return err }); err != nil {
			b.Fatal(err)
		}
	}
}
