package store_test

import (
	"fmt"
	"testing"

	"github.com/bridle-dev/bridle/store"
)

// BenchmarkMemoryUpdate writes into a store of 100,000 records.
func BenchmarkMemoryUpdate(b *testing.B) {
	s := store.Memory()
	defer s.Close()
	key := func(n int) string { return fmt.Sprintf("%06d", n*7919%100_000) }
	err := s.Update(b.Context(), func(tx store.Tx) error {
		for n := range 100_000 {
			if err := tx.Put("b", key(n), make([]byte, 100)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 100)
	for n := 0; b.Loop(); n++ {
		if err := s.Update(b.Context(), func(tx store.Tx) error { return tx.Put("b", key(n), value) }); err != nil {
			b.Fatal(err)
		}
	}
}
