package refs_test

import (
	"testing"

	"github.com/bridle-dev/bridle/internal/schema"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/store"
)

func TestTheTreeOfARefReadsAsItsJSON(t *testing.T) {
	keys, err := refs.OpenKeys(t.Context(), store.Memory())
	if err != nil {
		t.Fatal(err)
	}
	scope := refs.Scope{Connection: "web", Thread: "t", Lease: "l", Instance: "i"}
	all := map[string]refs.Ref{"element": refs.New("element", "e\u2028<1>"), "blob": refs.BlobInfo{ID: "b", MIMEType: "text/plain", Size: 7, Sensitive: true}.Ref()}
	for name, r := range all {
		for _, volatile := range []bool{false, true} {
			sealed, err := keys.Seal(r, scope, volatile)
			if err != nil {
				t.Fatal(err)
			}
			want, err := sealed.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if got := schema.Encode(sealed.Tree()); string(got) != string(want) {
				t.Errorf("%s: the tree reads as %s, want %s", name, got, want)
			}
		}
	}
}
