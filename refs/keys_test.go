package refs_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/store/storetest"
)

func TestWhoOpensTheSameStoreHasTheSameKeys(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		all := make([]*refs.Keys, 8)
		var work sync.WaitGroup
		for i := range all {
			work.Go(func() { all[i] = openKeys(t, s) })
		}
		work.Wait()
		for _, a := range all {
			if got, want := a.IDs(), all[0].IDs(); !slices.Equal(got, want) || len(got) != 1 {
				t.Fatalf("keys: got %q and %q, want the same one", got, want)
			}
			sealed := seal(t, a, refs.New("element", "e1"), home(), true)
			for _, b := range all {
				if err := b.Open(sealed, home()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestRefsStayValidOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s := openBolt(t, path)
	sealed := seal(t, openKeys(t, s), refs.New("element", "e1"), home(), true)
	s.Close()
	s = openBolt(t, path)
	defer s.Close()
	if err := openKeys(t, s).Open(decoded(t, encoded(t, sealed)), home()); err != nil {
		t.Error(err)
	}
}

func TestRotationKeepsOlderRefsAndRetiringDropsThem(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		ctx, keys := t.Context(), openKeys(t, s)
		first := keys.Current()
		older := seal(t, keys, refs.New("element", "e1"), home(), true)
		if err := keys.Rotate(ctx); err != nil {
			t.Fatal(err)
		}
		newer := seal(t, keys, refs.New("element", "e1"), home(), true)
		if keys.Current() == first || older.Equal(newer) {
			t.Error("the key has not changed")
		}
		for _, k := range []*refs.Keys{keys, openKeys(t, s)} {
			for _, r := range []refs.Ref{older, newer} {
				if err := k.Open(r, home()); err != nil {
					t.Error(err)
				}
			}
		}
		if err := keys.Retire(ctx, keys.Current()); !errors.Is(err, fault.RefInvalid) {
			t.Errorf("retiring the key that seals: error %v, want ref_invalid", err)
		}
		if err := errors.Join(keys.Retire(ctx, first), keys.Retire(ctx, "never was")); err != nil {
			t.Fatal(err)
		}
		for _, k := range []*refs.Keys{keys, openKeys(t, s)} {
			wantRefused(t, "under a retired key", k.Open(older, home()), fault.RefForged)
			if err := k.Open(newer, home()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAKeyOfAnotherProcessIsFoundWhenItIsMet(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s store.Store) {
		here, there := openKeys(t, s), openKeys(t, s)
		if err := there.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := here.Open(seal(t, there, refs.New("element", "e1"), home(), true), home()); err != nil {
			t.Error(err)
		}
		if here.Current() != there.Current() {
			t.Error("the newer key is known and does not seal")
		}
	})
}

func TestReloadForgetsWhatAnotherProcessRetired(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	here, there := openKeys(t, s), openKeys(t, s)
	sealed := seal(t, here, refs.New("element", "e1"), home(), true)
	if err := errors.Join(there.Rotate(t.Context()), there.Retire(t.Context(), here.Current()), here.Reload(t.Context())); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "retired elsewhere", here.Open(sealed, home()), fault.RefForged)
}

// slow does something after a View has read, before it returns.
type slow struct {
	store.Store
	then func()
}

func (s *slow) View(ctx context.Context, f func(store.Tx) error) error {
	err := s.Store.View(ctx, f)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return err
}

func TestASlowReaderBringsNoRetiredKeyBack(t *testing.T) {
	s := &slow{Store: store.Memory()}
	defer s.Close()
	keys := openKeys(t, s)
	sealed := seal(t, keys, refs.New("element", "e1"), home(), true)
	s.then = func() {
		old := keys.Current()
		if err := errors.Join(keys.Rotate(t.Context()), keys.Retire(t.Context(), old)); err != nil {
			t.Error(err)
		}
	}
	if err := keys.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "retired while another read", keys.Open(sealed, home()), fault.RefForged)
}

func TestRotationWhileSealing(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	here, there := openKeys(t, s), openKeys(t, s)
	var done atomic.Bool
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for !done.Load() {
				sealed, err := here.Seal(refs.New("element", "e1"), home(), true)
				if err == nil {
					err = errors.Join(here.Open(sealed, home()), there.Open(sealed, home()))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 50 {
		rotate := []*refs.Keys{here, there}[i%2]
		if err := rotate.Rotate(t.Context()); err != nil {
			t.Error(err)
		}
	}
	done.Store(true)
	work.Wait()
	if got, want := len(openKeys(t, s).IDs()), 51; got != want {
		t.Errorf("keys after all rotations: %d, want %d", got, want)
	}
}

func TestAnUnknownKeyReadsTheStoreOnce(t *testing.T) {
	s := &storetest.Counter{Store: store.Memory()}
	defer s.Close()
	foreign := seal(t, newKeys(t), refs.New("element", "e1"), home(), true)
	keys := openKeys(t, s)
	known := seal(t, keys, refs.New("element", "e1"), home(), true)
	before := s.Views.Load()
	for range 10 {
		wantRefused(t, "foreign key", keys.Open(foreign, home()), fault.RefForged)
		if err := keys.Open(known, home()); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.ReplaceAll(encoded(t, known), keys.Current(), "no id of a key")
	wantRefused(t, "no key's id", keys.Open(decoded(t, text), home()), fault.RefForged)
	if got := s.Views.Load() - before; got != 1 {
		t.Errorf("the store was read %d times, want 1", got)
	}
}

func TestAStoreThatFailsIsNoForgery(t *testing.T) {
	s := store.Memory()
	keys := openKeys(t, s)
	s.Close()
	foreign := seal(t, newKeys(t), refs.New("element", "e1"), home(), true)
	if err := keys.Open(foreign, home()); !errors.Is(err, fault.Closed) || errors.Is(err, fault.RefInvalid) {
		t.Errorf("error %v, want closed", err)
	}
	if _, err := refs.OpenKeys(t.Context(), s); !errors.Is(err, fault.Closed) {
		t.Errorf("opening keys of a closed store: error %v, want closed", err)
	}
}

func TestDamagedKeysAreNotUsed(t *testing.T) {
	for name, damage := range map[string]func(tx store.Tx, id string) error{
		"short":    func(tx store.Tx, id string) error { return tx.Put("refs/keys", "key/"+id, []byte(`{"secret":"AAAA"}`)) },
		"no JSON":  func(tx store.Tx, id string) error { return tx.Put("refs/keys", "key/"+id, []byte("x")) },
		"gone":     func(tx store.Tx, id string) error { return tx.Delete("refs/keys", "key/"+id) },
		"no state": func(tx store.Tx, id string) error { return tx.Put("refs/keys", "state", nil) },
	} {
		s := store.Memory()
		id := openKeys(t, s).Current()
		if err := s.Update(t.Context(), func(tx store.Tx) error { return damage(tx, id) }); err != nil {
			t.Fatal(err)
		}
		if _, err := refs.OpenKeys(t.Context(), s); !errors.Is(err, fault.StoreFailed) {
			t.Errorf("%s: error %v, want store_failed", name, err)
		}
		s.Close()
	}
}

func TestPrintingKeysShowsNone(t *testing.T) {
	s := store.Memory()
	defer s.Close()
	keys := openKeys(t, s)
	seal(t, keys, refs.New("element", "e1"), home(), true)
	var secret []byte
	_ = s.View(t.Context(), func(tx store.Tx) (err error) {
		secret, _, err = tx.Get("refs/keys", "key/"+keys.Current())
		return err
	})
	_, rest, _ := strings.Cut(string(secret), `"secret":"`)
	text, _, _ := strings.Cut(rest, `"`)
	if len(text) != 44 {
		t.Fatalf("the record of the key reads %s", secret)
	}
	key := unbase64(t, text)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		// Not the store, which holds the key: it belongs to the application.
		if out := fmt.Sprintf(verb, keys); strings.Contains(out, text) || strings.Contains(out, fmt.Sprintf("%x", key)) ||
			strings.Contains(out, strings.Trim(fmt.Sprint(key), "[]")) {
			t.Errorf("%s shows the key", verb)
		}
	}
}
