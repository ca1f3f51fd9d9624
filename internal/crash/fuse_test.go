package crash_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/bridle-dev/bridle/store"
)

// fuse ends this process with SIGKILL when it has burnt to a given point.
type fuse struct {
	at     int64 // the point, from 1; 0 is never
	points atomic.Int64
}

// burn passes one point.
func (f *fuse) burn(where string) {
	if f.points.Add(1) != f.at {
		return
	}
	fmt.Printf("{\"killed\":%q}\n", where)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // until the signal arrives
}

// fusedStore has a point before each commit and one after it.
type fusedStore struct {
	store.Store
	fuse *fuse
}

func (s *fusedStore) Update(ctx context.Context, f func(store.Tx) error) error {
	err := s.Store.Update(ctx, func(tx store.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		s.fuse.burn("before a commit")
		return nil
	})
	if err == nil {
		s.fuse.burn("after a commit")
	}
	return err
}
