package browsercrash_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bridle-dev/bridle/fault"
)

func TestAFormThatWasNotSubmittedIsFilledInAgainOnlyIfAllowed(t *testing.T) {
	t.Parallel()
	trial := newTrial(t, newSite(t, false))
	c := trial.child(func(o *orders) { o.Hold = true })
	if s := c.next(); !s.Filled {
		t.Fatalf("the child said %+v", s)
	}
	c.kill()

	if s := trial.resume(false); s.Code != fault.ConnectionReplaced {
		t.Errorf("without Rerun it came to %+v", s)
	}
	trial.wantSubmissions()
	if s := trial.resume(true); s.Err != "" || !strings.Contains(s.Out, `heading "Hello Dora"`) {
		t.Errorf("with Rerun it came to %+v", s)
	}
	trial.wantSubmissions("Dora")
}

func TestAFormThatMayHaveBeenSubmittedIsNotSubmittedAgain(t *testing.T) {
	t.Parallel()
	trial := newTrial(t, newSite(t, true))
	c := trial.child(func(*orders) {})
	select {
	case <-trial.site.reached:
	case <-time.After(time.Minute):
		t.Fatal("the form is not submitted")
	}
	c.kill()
	trial.site.answer()

	if s := trial.resume(false); s.Code != fault.ConnectionReplaced {
		t.Errorf("without Rerun it came to %+v", s)
	}
	trial.wantSubmissions("Dora")
	if s := trial.resume(true); s.Code != fault.OutcomeUnknown {
		t.Errorf("with Rerun it came to %+v", s)
	}
	trial.wantSubmissions("Dora")
}

func TestARunGoesOnInTheBrowserThatSurvived(t *testing.T) {
	t.Parallel()
	trial := newTrial(t, newSite(t, false))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	survivor, err := trial.orders.Chromium.start(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := survivor.stop(); err != nil {
			t.Errorf("the browser did not survive: %v", err)
		}
	})
	trial.orders.Browser = survivor.address
	c := trial.child(func(o *orders) { o.Hold = true })
	if s := c.next(); !s.Filled {
		t.Fatalf("the child said %+v", s)
	}
	c.kill()

	if s := trial.resume(false); s.Err != "" || !strings.Contains(s.Out, `heading "Hello Dora"`) {
		t.Errorf("came to %+v", s)
	}
	trial.wantSubmissions("Dora")
}
