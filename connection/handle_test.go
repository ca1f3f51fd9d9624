package connection_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

func TestAHandleSaysWhatItWasGiven(t *testing.T) {
	type setup struct {
		URL string `json:"url,omitempty"`
	}
	profile := &provider.Profile{Name: "browser", Version: "1.0.0"}
	h := connection.NewHandle("shop", &connection.Requirement{Profile: profile}, &connection.HandleOptions[setup]{
		From: "browsers", Fresh: connection.FreshPath, Setup: setup{"https://shop.test"}, Wait: time.Second})
	if h.Name() != "shop" || h.From() != "browsers" || h.Fresh() != connection.FreshPath || h.Wait() != time.Second ||
		h.Profile() != profile || string(h.Setup()) != `{"url":"https://shop.test"}` || h.Check() != nil {
		t.Errorf("got %+v, %v", h, h.Check())
	}
	for name, h := range map[string]*connection.Handle{
		"nothing but a name": connection.Named("shop"),
		"no options":         connection.NewHandle[setup]("shop", nil, nil),
		"empty options":      connection.NewHandle("shop", nil, &connection.HandleOptions[setup]{}),
		"options of nothing": connection.NewHandle("shop", nil, &connection.HandleOptions[any]{}),
	} {
		if h.Name() != "shop" || h.From() != "shop" || h.Fresh() != connection.Shared || h.Wait() != 0 ||
			h.Profile() != nil || h.Setup() != nil || h.Check() != nil {
			t.Errorf("%s: got %+v, %v", name, h, h.Check())
		}
	}
	if p := h.Tools("open"); p.Handle() != h || p.Name() != "shop" || p.Check() != nil {
		t.Errorf("a pick from it: %+v", p)
	}
}

func TestMistakesInHandlesAreNamed(t *testing.T) {
	type login struct {
		Password any `json:"password"`
	}
	of := func(name connection.Name, o connection.HandleOptions[any]) *connection.Handle {
		return connection.NewHandle(name, nil, &o)
	}
	for name, h := range map[string]*connection.Handle{
		"name":             of("9", connection.HandleOptions[any]{}),
		"name of the pool": of("a", connection.HandleOptions[any]{From: "a b"}),
		"freshness":        of("a", connection.HandleOptions[any]{Fresh: "daily"}),
		"no JSON":          of("a", connection.HandleOptions[any]{Setup: func() {}}),
		"a secret":         of("a", connection.HandleOptions[any]{Setup: login{secrets.Ref("bank.pin")}}),
	} {
		for what, err := range map[string]error{"the handle": h.Check(), "a pick": h.Tools().Check()} {
			fe, ok := errors.AsType[*fault.Error](err)
			if !ok || fe.Code != fault.ConnectionInvalid || fe.Hint == "" {
				t.Errorf("%s of %s: %v", name, what, err)
			}
		}
	}
}
