package store_test

import (
	"context"
	"fmt"
	"log"

	"github.com/bridle-dev/bridle/store"
)

func Example() {
	s, ctx := store.Memory(), context.Background()
	defer s.Close()

	err := s.Update(ctx, func(tx store.Tx) error {
		if err := tx.Put("inbox", "0001", []byte("hello")); err != nil {
			return err
		}
		return tx.Put("cursors", "chat", []byte("0001"))
	})
	if err != nil {
		log.Fatal(err)
	}
	err = s.View(ctx, func(tx store.Tx) error {
		for record, err := range tx.Scan("inbox", store.Range{}) {
			if err != nil {
				return err
			}
			fmt.Printf("%s = %s\n", record.Key, record.Value)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 0001 = hello
}

func ExampleRange() {
	s, ctx := store.Memory(), context.Background()
	defer s.Close()
	_ = s.Update(ctx, func(tx store.Tx) error {
		for _, key := range []string{"thread/1/a", "thread/1/b", "thread/1/c", "thread/2/a"} {
			if err := tx.Put("items", key, nil); err != nil {
				return err
			}
		}
		return nil
	})
	lastTwo := store.Range{Prefix: "thread/1/", Reverse: true, Limit: 2}
	_ = s.View(ctx, func(tx store.Tx) error {
		for record, err := range tx.Scan("items", lastTwo) {
			if err != nil {
				return err
			}
			fmt.Println(record.Key)
		}
		return nil
	})
	// Output:
	// thread/1/c
	// thread/1/b
}

// A worker asks for changes before it looks, so that it misses none.
func ExampleStore_changed() {
	s, ctx := store.Memory(), context.Background()
	defer s.Close()
	changed, stop := s.Changed("inbox", "chat/")
	defer stop()

	_ = s.Update(ctx, func(tx store.Tx) error { return tx.Put("inbox", "chat/1", []byte("hi")) })
	<-changed
	_ = s.View(ctx, func(tx store.Tx) error {
		value, _, err := tx.Get("inbox", "chat/1")
		fmt.Printf("%s\n", value)
		return err
	})
	// Output: hi
}
