package mcpserver_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
	"github.com/bridle-dev/bridle/refs"
)

func TestWhatIsDeclaredArrivesOverEveryWay(t *testing.T) {
	t.Parallel()
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(newStore(t), func(o *mcpserver.Options) {
				o.Extensions = []*provider.Profile{{Name: "com.acme.shop", Version: "0.1.0"}}
			})
			c := connect(t, way(t, s.server))
			m := c.Manifest()
			if diff := cmp.Diff([]provider.Version{"shop@1.2.0"}, m.Profiles); diff != "" {
				t.Errorf("profiles: %s", diff)
			}
			if diff := cmp.Diff([]provider.Version{"com.acme.shop@0.1.0"}, m.Extensions); diff != "" {
				t.Errorf("extensions: %s", diff)
			}
			if m.Determinism != provider.Costly {
				t.Errorf("determinism %q", m.Determinism)
			}
			if id := c.Identity(); id != s.identity {
				t.Errorf("identity %v", id)
			}
		})
	}
}

func TestAChangedIdentityComesWithTheNextResult(t *testing.T) {
	t.Parallel()
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(newStore(t), nil)
			s.kit.Check()
			c := connect(t, way(t, s.server))
			watcher, _ := provider.Ability[provider.Watcher](c)
			changes := make(chan provider.Change, 10)
			defer watcher.Watch(func(ch provider.Change) { changes <- ch })()
			replace := func(instance string) provider.Identity {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.identity.Instance = instance
				return s.identity
			}
			value(t, c, pay("a", "k"))
			want := replace("two")
			value(t, c, pay("a", "k")) // a kept outcome says who answers now
			if ch := <-changes; ch != provider.IdentityChanged || c.Identity() != want {
				t.Errorf("%s, identity %v", ch, c.Identity())
			}
			want = replace("three")
			reader, _ := provider.Ability[provider.Reader](c)
			if _, err := reader.Read(within(t), &provider.ReadRequest{Name: "shop://sign"}); err != nil {
				t.Fatal(err)
			}
			if ch := <-changes; ch != provider.IdentityChanged || c.Identity() != want {
				t.Errorf("%s, identity %v", ch, c.Identity())
			}
		})
	}
}

func TestAServerWithoutIdentityDeclaresNone(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), func(o *mcpserver.Options) { o.Identity = nil })
	bare := newShop(newStore(t), func(o *mcpserver.Options) {
		o.Identity = func() provider.Identity { return provider.Identity{Surface: "shop"} }
	})
	for _, s := range []*shop{s, bare} {
		if id := open(t, s).Identity(); id.Surface == "shop" || id.Instance == "" {
			t.Errorf("identity %v", id)
		}
	}
}

func TestAProfileIsDeclaredOnceItIsWhole(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), func(o *mcpserver.Options) {
		more := shopProfile()
		more.Operations = append(more.Operations, provider.Operation{Name: "burn.more"})
		o.Profiles = []*provider.Profile{more}
	})
	if m := connect(t, mcp.InMemory(s.server, nil)).Manifest(); len(m.Profiles) > 0 {
		t.Errorf("declared %v with an operation missing", m.Profiles)
	}
	mcpserver.Add(s.kit, "burn.more", s.pay)
	if m := open(t, s).Manifest(); len(m.Profiles) != 1 {
		t.Errorf("declared %v", m.Profiles)
	}
}

func TestAGuardedTargetWaitsForTheApproval(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), nil)
	c := open(t, s)
	post := pay("#all", "k")
	post.Op = "shop.post"
	_, err := c.Call(within(t), post)
	if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Code != fault.Guarded || fe.PeerCode != "#all" {
		t.Fatalf("got %v", err)
	}
	post.Approval = "token"
	value(t, c, post)
	value(t, c, post)
	wantEffects(t, s, "post #all")
}

func TestClientsLearnWhatIsDangerousAndWhatToSeal(t *testing.T) {
	t.Parallel()
	m := open(t, newShop(newStore(t), nil)).Manifest()
	for name, want := range map[string]struct{ readOnly, destructive bool }{
		"shop.pay":  {false, false},
		"shop.post": {false, true},
		"shop.list": {true, false},
		"burn":      {false, true},
		"echo":      {true, false},
	} {
		op, ok := m.Operation(name)
		if !ok || op.Hints.ReadOnly == nil || op.Hints.Destructive == nil ||
			*op.Hints.ReadOnly != want.readOnly || *op.Hints.Destructive != want.destructive {
			t.Errorf("%s: %+v", name, op.Hints)
		}
	}
	for _, name := range []string{"shop.pay", "shop.book"} { // by the profile, by the type
		op, _ := m.Operation(name)
		marks, err := refs.ParseMarks(op.Result)
		if err != nil || marks == nil {
			t.Errorf("%s: %v, %v in %s", name, marks, err, op.Result)
		}
	}
}

func TestFailuresAreNeitherEmptyNorSuccess(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), nil)
	c := open(t, s)
	for _, tt := range []struct {
		op, args string
	}{
		{"burn", `{"order":"a"}`},
		{"burn", `{"order":1}`},
		{"burn", `{}`},
		{"burn", `{"order":"a","more":1}`},
		{"burn", `{"order":"a","order":"b"}`},
		{"shop.pay", `{"order":"a","amount":1.5}`},
	} {
		_, err := c.Call(within(t), &provider.CallRequest{Op: tt.op, Args: json.RawMessage(tt.args), Key: "k"})
		if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Code != fault.OpFailed || fe.Err == nil {
			t.Errorf("%s %s: %v", tt.op, tt.args, err)
		}
	}
	wantEffects(t, s)
}
