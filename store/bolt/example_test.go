package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

func Example() {
	dir, err := os.MkdirTemp("", "bolt")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path, ctx := filepath.Join(dir, "agent.db"), context.Background()

	s, err := bolt.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	err = s.Update(ctx, func(tx store.Tx) error {
		return tx.Put("threads", "42", []byte("waiting for a reply"))
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := bolt.Open(path, &bolt.Options{LockTimeout: -1}); errors.Is(err, fault.StoreHeld) {
		fmt.Println("one store holds the file")
	}
	s.Close()

	s, err = bolt.Open(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	_ = s.View(ctx, func(tx store.Tx) error {
		value, _, err := tx.Get("threads", "42")
		fmt.Printf("%s\n", value)
		return err
	})
	// Output:
	// one store holds the file
	// waiting for a reply
}
