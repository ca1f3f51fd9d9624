package providertest

import (
	"context"
	"encoding/json"

	"github.com/bridle-dev/bridle/provider"
)

func provisionCases() []testCase {
	return []testCase{
		{name: "Provision/makes things of their own", needs: []need{needProvision()}, check: provisionDistinct},
		{name: "Provision/fails when its context has ended", needs: []need{needProvision()}, check: provisionCancelled},
		{name: "Provision/the provider has the declared abilities", check: provisionDeclared},
		{name: "Reattach/a thing that is gone is NotSent", needs: []need{needReattach()}, check: reattachGone},
		{name: "Reattach/takes back a thing whose connection died", needs: []need{needReattach(), needKill()}, check: reattachLost},
		{name: "Detach/leaves the thing for Reattach", needs: []need{needDetach()}, check: detach},
	}
}

func provisionDeclared(_ context.Context, s *session) {
	if _, ok := s.p.(provider.Provisioner); !ok && s.cfg.Abilities.Provision {
		s.Errorf("the provider does not implement the declared ability Provisioner")
	}
	if _, ok := s.p.(provider.Reattacher); !ok && s.cfg.Abilities.Reattach {
		s.Errorf("the provider does not implement the declared ability Reattacher")
	}
}

func (s *session) provision(ctx context.Context) (provider.Conn, error) {
	s.Helper()
	p, ok := s.p.(provider.Provisioner)
	if !ok {
		s.Fatalf("the provider does not implement the declared ability Provisioner")
	}
	c, err := p.Provision(ctx, &provider.ProvisionRequest{
		Setup: s.cfg.Setup, Host: s.cfg.Host, Execution: "providertest"}, s.options())
	if c != nil {
		s.keep(c)
	}
	return c, s.note(err)
}

func (s *session) provisioned(ctx context.Context) provider.Conn {
	s.Helper()
	c, err := s.provision(ctx)
	if err != nil || c == nil {
		s.Fatalf("Provision: got %v, %v", c, err)
	}
	return c
}

func provisionDistinct(ctx context.Context, s *session) {
	first, second := s.provisioned(ctx), s.provisioned(ctx)
	if first.Identity().Instance == second.Identity().Instance {
		s.Errorf("two provisioned things are the instance %q", first.Identity().Instance)
	}
	s.works(ctx, first)
	s.release(ctx, first)
	s.works(ctx, second)
}

func provisionCancelled(ctx context.Context, s *session) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	s.promptly("Provision with a context that has ended", func() {
		if c, err := s.provision(ctx); err == nil || c != nil {
			s.Errorf("Provision: got %v, %v although its context had ended", c, err)
		}
	})
}

// reattach goes back to the thing with an identity.
func (s *session) reattach(ctx context.Context, id provider.Identity) (provider.Conn, error) {
	s.Helper()
	p, ok := s.p.(provider.Reattacher)
	if !ok {
		s.Fatalf("the provider does not implement the declared ability Reattacher")
	}
	state, err := json.Marshal(id)
	if err != nil {
		s.Fatalf("identity: %v", err)
	}
	c, err := p.Reattach(ctx, state, s.options())
	if c != nil {
		s.keep(c)
	}
	return c, s.note(err)
}

func reattachGone(ctx context.Context, s *session) {
	c := s.provisioned(ctx)
	id := c.Identity()
	s.release(ctx, c)
	_, err := s.reattach(ctx, id)
	s.wantNotSent("Reattach to a thing that is gone", err)
}

func detach(ctx context.Context, s *session) {
	c := s.provisioned(ctx)
	id := c.Identity()
	if err := ability[provider.Detacher](s, c).Detach(ctx); err != nil {
		s.Errorf("Detach: %v", err)
	}
	s.await("Done after Detach", c.Done())
	if err := c.Release(ctx); err != nil {
		s.Errorf("Release after Detach: %v", err)
	}
	again, err := s.reattach(ctx, id)
	if err != nil {
		s.Fatalf("Reattach after Detach and Release: %v", err)
	}
	if again.Identity() != id {
		s.Errorf("Reattach gave %+v, want %+v", again.Identity(), id)
	}
	s.works(ctx, again)
	s.release(ctx, again)
	_, err = s.reattach(ctx, id)
	s.wantNotSent("Reattach to what was released in the end", err)
}

func reattachLost(ctx context.Context, s *session) {
	lost := s.provisioned(ctx)
	id := lost.Identity()
	s.cfg.Kill(s.t, s.p)
	s.await("Done after the peer died", lost.Done())
	c, err := s.reattach(ctx, id)
	if err != nil {
		s.wantNotSent("Reattach to a thing that did not survive", err)
		return
	}
	if c.Identity() != id {
		s.Errorf("Reattach gave %+v, want %+v", c.Identity(), id)
	}
	s.works(ctx, c)
}
