package harness_test

import (
	"testing"

	"github.com/bridle-dev/bridle/event"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/harness"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/store"
)

func TestWhatAPoolLeftThatIsNotConfiguredIsToldAndDropped(t *testing.T) {
	f, st := newFarm(""), store.Memory()
	defer st.Close()
	left := leave(t, st, f, "x")
	h := open(t, harness.Config{Store: st, Connections: attached("shop", ops("look"))})
	a := h.Admin()
	admin(t, a, "GET", "/leases", "", 503, nil)
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	warned := until(t, h, func(ev event.Event) bool { return ev.Type == event.Warning })
	if warned.Connection != "farm" || warned.Execution != "x" || warned.Data["lease"] != left.ID || fault.CodeOf(warned.Err) != fault.ConnectionUnknown {
		t.Errorf("told %+v", warned)
	}
	var page struct{ Leases []pool.Stray }
	admin(t, a, "GET", "/leases", "", 200, &page)
	if len(page.Leases) != 1 || page.Leases[0].ID != left.ID || page.Leases[0].Instance == "" {
		t.Fatalf("listed %+v", page)
	}
	path := "/leases/" + left.ID + "/drop"
	admin(t, a, "POST", path, "", 400, nil)
	admin(t, a, "POST", "/leases/other/drop", `{"reason":"x"}`, 404, nil)
	var dropped pool.Stray
	admin(t, a, "POST", path, `{"reason":"ended by hand"}`, 200, &dropped)
	if dropped != page.Leases[0] {
		t.Errorf("dropped %+v", dropped)
	}
	admin(t, a, "POST", path, `{"reason":"again"}`, 404, nil)
	until(t, h, func(ev event.Event) bool {
		return ev.Type == event.LeaseReclaimed && ev.Connection == "farm" && ev.Data["lease"] == left.ID
	})
}

func TestWhatAPoolLeftThatIsConfiguredIsNoStray(t *testing.T) {
	f, st := newFarm(""), store.Memory()
	defer st.Close()
	left := leave(t, st, f, "x")
	h := open(t, harness.Config{Store: st, Connections: farming(f, 9)})
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin(t, h.Admin(), "POST", "/leases/"+left.ID+"/drop", `{"reason":"x"}`, 404, nil)
	if n := len(f.Provisioned()); n != 1 {
		t.Errorf("%d things wait for their run", n)
	}
}
