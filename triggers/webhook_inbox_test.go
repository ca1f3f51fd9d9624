package triggers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/provider"
	kv "github.com/bridle-dev/bridle/store"
	"github.com/bridle-dev/bridle/triggers"
)

// hooked is an inbox that listens to a webhook.
func hooked(t *testing.T, s kv.Store) (*triggers.WebhookReceiver, *world) {
	t.Helper()
	hooks := triggers.NewWebhookReceiver(nil)
	source := hooks.Source(hook, triggers.StandardWebhooks(whsec), triggers.Declare[deployFailed]("deploy.failed"))
	l, _ := provider.Ability[provider.Listener](connect(t, source))
	w := newWorld(t, s, triggers.Trigger{ID: "failed", Connection: "deploys", Event: "deploy.failed", Input: triggers.Say("A deploy failed.")})
	w.cfg.Listen = func(ctx context.Context, one *triggers.Trigger, after provider.Cursor) (provider.Subscription, error) {
		return l.Listen(ctx, &provider.ListenRequest{Event: one.Event, After: after})
	}
	return hooks, w.start()
}

func deliver(t *testing.T, hooks *triggers.WebhookReceiver, id, body string, want int) {
	t.Helper()
	if res := serve(hooks, post(id, body)); res.StatusCode != want {
		t.Errorf("%s: status %d, want %d", id, res.StatusCode, want)
	}
}

// B122, B124: one delivery that comes often is one turn, and each sender is told
// that it is stored.
func TestADeliveryThatIsRepeatedIsOneTurn(t *testing.T) {
	stores(t, func(t *testing.T, s kv.Store) {
		hooks, w := hooked(t, s)
		for range 5 {
			deliver(t, hooks, "msg_1", deployBody, 204)
		}
		w.again()
		var senders sync.WaitGroup
		for i := range 32 {
			senders.Go(func() { deliver(t, hooks, fmt.Sprintf("msg_%d", 1+i%2), deployBody, 204) })
		}
		senders.Wait()
		deliver(t, hooks, "msg_1", `{"type":"deploy.failed","data":{"service":"another"}}`, 204)
		w.idle()
		w.stop()
		if diff := cmp.Diff([]string{"deploys:failed:msg_1", "deploys:failed:msg_2"}, w.began()); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
	})
}

func TestABadDeliveryHoldsUpNoOther(t *testing.T) {
	hooks, w := hooked(t, memory(t))
	deliver(t, hooks, "msg_1", `{"type":"deploy.failed","data":{"service":[]}}`, 422)
	deliver(t, hooks, "msg_2", `{"type":"deploy.done","data":{}}`, 200)
	deliver(t, hooks, "msg_3", `{"type":`, 400)
	deliver(t, hooks, "msg_4", deployBody, 204)
	w.idle()
	w.stop()
	deliver(t, hooks, "msg_5", deployBody, 503)
	if diff := cmp.Diff([]string{"deploys:failed:msg_4"}, w.began()); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	want := triggers.WebhookStatus{Accepted: 1, Ignored: 1, Refused: map[triggers.Refusal]int64{
		triggers.RefusedPayload: 1, triggers.RefusedFormat: 1, triggers.RefusedStore: 1}}
	if diff := cmp.Diff(want, hooks.Status()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// What a store refuses is not acknowledged, whether it was kept or not, and is
// one turn when it comes again.
func TestADeliveryIsNotAcceptedWhileTheStoreFails(t *testing.T) {
	for _, kept := range []bool{false, true} {
		m := &mortal{Store: memory(t)}
		hooks, w := hooked(t, m)
		m.die(1, kept)
		deliver(t, hooks, "msg_1", deployBody, 503)
		w.stop()
		m.live()
		w.start()
		deliver(t, hooks, "msg_1", deployBody, 204)
		w.idle()
		w.stop()
		if diff := cmp.Diff([]string{"deploys:failed:msg_1"}, w.began()); diff != "" {
			t.Errorf("kept %t: turns (-want +got):\n%s", kept, diff)
		}
	}
}
