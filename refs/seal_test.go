package refs_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
)

func TestASealedRefOpensInItsScope(t *testing.T) {
	keys := newKeys(t)
	leased := refs.Scope{Connection: "pool", Thread: "t1", Lease: "lease-3", Instance: "i1"}
	blob := refs.BlobInfo{ID: "b1", MIMEType: "image/png", Size: 7, Sensitive: true}
	for name, c := range map[string]struct {
		ref      refs.Ref
		scope    refs.Scope
		volatile bool
	}{
		"volatile":     {refs.New("element", "e12"), home(), true},
		"stable":       {refs.New("chat.thread", "C1/17"), home(), false},
		"leased":       {refs.New("element", "e12"), leased, true},
		"blob":         {blob.Ref(), home(), false},
		"odd text":     {refs.New("k\x00<&>", "\x7f\n\"\\é\U0001F600\u2028"), home(), false},
		"same in both": {refs.New("x", "x"), refs.Scope{Connection: "x", Thread: "x", Lease: "x", Instance: "x"}, true},
	} {
		sealed := seal(t, keys, c.ref, c.scope, c.volatile)
		if err := keys.Open(sealed, c.scope); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		anywhere := c.scope
		anywhere.Connection = ""
		if err := keys.Open(sealed, anywhere); err != nil {
			t.Errorf("%s, in a scope without connection: %v", name, err)
		}
		if sealed.ID() != c.ref.ID() || sealed.Kind() != c.ref.Kind() || !sealed.Sealed() ||
			sealed.Connection() != c.scope.Connection || sealed.Thread() != c.scope.Thread {
			t.Errorf("%s: sealing lost a field: %v", name, sealed)
		}
	}
}

func TestARefIsRefusedOutsideItsScopeWithTheReason(t *testing.T) {
	keys := newKeys(t)
	scope := refs.Scope{Connection: "app", Thread: "t1", Lease: "l1", Instance: "i1"}
	volatile := seal(t, keys, refs.New("element", "e1"), scope, true)
	change := func(f func(*refs.Scope)) refs.Scope { s := scope; f(&s); return s }
	for name, c := range map[string]struct {
		scope  refs.Scope
		reason fault.Code
	}{
		"foreign thread":   {change(func(s *refs.Scope) { s.Thread = "t2" }), fault.RefForeign},
		"no thread":        {change(func(s *refs.Scope) { s.Thread = "" }), fault.RefForeign},
		"other connection": {change(func(s *refs.Scope) { s.Connection = "web" }), fault.RefUnknown},
		"other lease":      {change(func(s *refs.Scope) { s.Lease = "l2" }), fault.RefLease},
		"no lease":         {change(func(s *refs.Scope) { s.Lease = "" }), fault.RefLease},
		"replaced":         {change(func(s *refs.Scope) { s.Instance = "i2" }), fault.RefReplaced},
		"instance unknown": {change(func(s *refs.Scope) { s.Instance = "" }), fault.RefReplaced},
		"everything else":  {refs.Scope{Connection: "x", Thread: "x", Lease: "x", Instance: "x"}, fault.RefForeign},
	} {
		wantRefused(t, name, keys.Open(volatile, c.scope), c.reason)
	}
	wantRefused(t, "no seal", keys.Open(refs.New("element", "e1"), scope), fault.RefForged)
	wantRefused(t, "no ref", keys.Open(refs.Ref{}, scope), fault.RefForged)
	wantRefused(t, "foreign key", newKeys(t).Open(volatile, scope), fault.RefForged)

	stable := seal(t, keys, refs.New("thread", "e1"), scope, false)
	if err := keys.Open(stable, change(func(s *refs.Scope) { s.Instance = "i2" })); err != nil {
		t.Errorf("a ref of a kind that is not volatile, after a replacement: %v", err)
	}
	unleased := seal(t, keys, refs.New("element", "e1"), home(), true)
	leased := home()
	leased.Lease = "l1"
	wantRefused(t, "not leased when issued", keys.Open(unleased, leased), fault.RefLease)
}

func TestWhatCannotBeSealedIsRefused(t *testing.T) {
	keys := newKeys(t)
	long := strings.Repeat("x", refs.MaxSize)
	for name, c := range map[string]struct {
		ref      refs.Ref
		scope    refs.Scope
		volatile bool
	}{
		"no id":            {refs.New("element", ""), home(), false},
		"no kind":          {refs.New("", "e1"), home(), false},
		"zero":             {refs.Ref{}, home(), false},
		"no thread":        {refs.New("element", "e1"), refs.Scope{Connection: "app"}, false},
		"no connection":    {refs.New("element", "e1"), refs.Scope{Thread: "t1"}, false},
		"no instance":      {refs.New("element", "e1"), refs.Scope{Connection: "app", Thread: "t1"}, true},
		"not UTF-8":        {refs.New("element", "\xff"), home(), false},
		"thread not UTF-8": {refs.New("element", "e1"), refs.Scope{Connection: "app", Thread: "\xc3"}, false},
		"too long":         {refs.New("element", long), home(), false},
		"sealed already":   {seal(t, keys, refs.New("element", "e1"), home(), false), home(), false},
		"negative size":    {refs.BlobInfo{ID: "b", Size: -1}.Ref(), home(), false},
	} {
		if got, err := keys.Seal(c.ref, c.scope, c.volatile); !errors.Is(err, fault.RefInvalid) || got.Sealed() {
			t.Errorf("%s: sealed as %v, error %v, want ref_invalid", name, got, err)
		}
	}
}

func TestTheLongestRefSurvivesJSON(t *testing.T) {
	keys := newKeys(t)
	for _, char := range []string{"x", "<", "\x01", "é", "\u2028"} {
		longest := refs.Ref{}
		for n := refs.MaxSize / len(char); n > 0 && longest.IsZero(); n-- {
			if sealed, err := keys.Seal(refs.New("element", strings.Repeat(char, n)), home(), true); err == nil {
				longest = sealed
			}
		}
		if err := keys.Open(decoded(t, encoded(t, longest)), home()); err != nil {
			t.Errorf("%q: %v", char, err)
		}
	}
}

func TestSealsAreIndependentOfEachOther(t *testing.T) {
	keys := newKeys(t)
	var work sync.WaitGroup
	for worker := range 8 {
		work.Go(func() {
			scope := refs.Scope{Connection: "app", Thread: string(rune('a' + worker))}
			for range 200 {
				sealed, err := keys.Seal(refs.New("element", "e1"), scope, false)
				if err != nil {
					t.Error(err)
				}
				if err := keys.Open(sealed, scope); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
}

func BenchmarkSealAndOpen(b *testing.B) {
	keys, scope := newKeys(b), home()
	ref := refs.New("element", "e12")
	b.ReportAllocs()
	for b.Loop() {
		sealed, err := keys.Seal(ref, scope, true)
		if err != nil {
			b.Fatal(err)
		}
		if err := keys.Open(sealed, scope); err != nil {
			b.Fatal(err)
		}
	}
}
