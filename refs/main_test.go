package refs_test

import (
	"errors"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/bolt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onEveryStore runs a test on each kind of store.
func onEveryStore(t *testing.T, f func(t *testing.T, s store.Store)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return store.Memory() },
		"bolt":   func(t *testing.T) store.Store { return openBolt(t, filepath.Join(t.TempDir(), "db")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			defer s.Close()
			f(t, s)
		})
	}
}

func openBolt(t *testing.T, path string) store.Store {
	t.Helper()
	s, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openKeys(t *testing.T, s store.Store) *refs.Keys {
	t.Helper()
	keys, err := refs.OpenKeys(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// newKeys returns keys on a store of their own.
func newKeys(t testing.TB) *refs.Keys {
	t.Helper()
	s := store.Memory()
	t.Cleanup(func() { s.Close() })
	keys, err := refs.OpenKeys(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// home is the scope of most tests.
func home() refs.Scope { return refs.Scope{Connection: "app", Thread: "t1", Instance: "page-7"} }

func seal(t testing.TB, keys *refs.Keys, r refs.Ref, s refs.Scope, volatile bool) refs.Ref {
	t.Helper()
	sealed, err := keys.Seal(r, s, volatile)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// wantRefused checks that an error is ref_invalid for the given reason alone.
func wantRefused(t *testing.T, what string, err error, reason fault.Code) {
	t.Helper()
	if !errors.Is(err, fault.RefInvalid) || fault.CodeOf(err) != fault.RefInvalid || !errors.Is(err, reason) {
		t.Errorf("%s: error %v, want ref_invalid and %s", what, err, reason)
	}
	for _, other := range []fault.Code{fault.RefForged, fault.RefForeign, fault.RefLease, fault.RefReplaced, fault.RefUnknown, fault.RefMixed} {
		if other != reason && errors.Is(err, other) {
			t.Errorf("%s: error %v is %s too", what, err, other)
		}
	}
}
