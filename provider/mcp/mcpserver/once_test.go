package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
	"github.com/bridle-dev/bridle/store"
)

func value(t *testing.T, c provider.Conn, req *provider.CallRequest) string {
	t.Helper()
	res, err := c.Call(within(t), req)
	if err != nil {
		t.Fatalf("%s with key %s: %v", req.Op, req.Key, err)
	}
	return string(res.Value)
}

func wantCode(t *testing.T, c provider.Conn, req *provider.CallRequest, code fault.Code) {
	t.Helper()
	if _, err := c.Call(within(t), req); fault.CodeOf(err) != code {
		t.Errorf("%s with key %s: got %v, want %s", req.Op, req.Key, err, code)
	}
}

func wantEffects(t *testing.T, s *shop, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.effects()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestARepeatedKeyReturnsTheFirstOutcomeOverEveryWay(t *testing.T) {
	t.Parallel()
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(newStore(t), nil)
			c := connect(t, way(t, s.server))
			first := value(t, c, pay("a", "k1"))
			for range 3 {
				if got := value(t, connect(t, way(t, s.server)), pay("a", "k1")); got != first {
					t.Errorf("again: %s, first %s", got, first)
				}
			}
			if other := value(t, c, pay("a", "k2")); other == first {
				t.Error("another key got the first one's outcome")
			}
			wantEffects(t, s, "pay a", "pay a")
		})
	}
}

func TestManyRepeatsAtOnceAreOneEffectAndOneAnswer(t *testing.T) {
	t.Parallel()
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(newStore(t), nil)
			var conns []provider.Conn
			for range 3 {
				conns = append(conns, connect(t, way(t, s.server)))
			}
			const rounds, repeats = 5, 24
			for round := range rounds {
				answers := make([]string, repeats)
				var all sync.WaitGroup
				for i := range repeats {
					all.Go(func() {
						req := pay(fmt.Sprint(round), fmt.Sprint("key", round))
						if res, err := conns[i%len(conns)].Call(within(t), req); err != nil {
							t.Error(err)
						} else {
							answers[i] = string(res.Value)
						}
					})
				}
				all.Wait()
				for _, a := range answers {
					if a != answers[0] {
						t.Errorf("round %d: answers %s and %s", round, answers[0], a)
					}
				}
			}
			wantEffects(t, s, "pay 0", "pay 1", "pay 2", "pay 3", "pay 4")
		})
	}
}

// TestRepeatsThatGiveUpDisturbNobody cancels all but one of many callers, the
// first one too: the one that stays gets the outcome.
func TestRepeatsThatGiveUpDisturbNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(newStore(t), nil)
		goOn := make(chan struct{})
		s.hold = func(ctx context.Context, _ *sdk.CallToolRequest, point string) {
			if point == "after" {
				select {
				case <-goOn:
				case <-ctx.Done():
					t.Error("the work was ended although somebody waits")
				}
			}
		}
		c := open(t, s)
		gaveUp, giveUp := context.WithCancel(t.Context())
		var leaving, staying sync.WaitGroup
		for range 8 {
			leaving.Go(func() {
				if _, err := c.Call(gaveUp, pay("a", "k")); !errors.Is(err, fault.OutcomeUnknown) {
					t.Errorf("who gave up got %v", err)
				}
			})
		}
		synctest.Wait()
		staying.Go(func() {
			if _, err := c.Call(t.Context(), pay("a", "k")); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		wantCode(t, c, pay("b", "k"), fault.OpFailed) // the key is taken already
		giveUp()
		leaving.Wait()
		synctest.Wait()
		close(goOn)
		staying.Wait()
		wantEffects(t, s, "pay a")
	})
}

func TestARefusalIsNotKept(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), func(o *mcpserver.Options) { o.MaxKeys = 1 })
	s.refusals = 3
	c := open(t, s)
	for i := range 3 {
		wantCode(t, c, pay("a", fmt.Sprint("refused", i)), fault.OpFailed) // room for one key only
	}
	first := value(t, c, pay("a", "refused0"))
	if again := value(t, c, pay("a", "refused0")); again != first {
		t.Errorf("again %s, first %s", again, first)
	}
	wantEffects(t, s, "pay a")
}

func TestAPlainErrorLeavesAOnceOperationInDoubt(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), nil)
	c := open(t, s)
	broken := pay("a", "k")
	broken.Args = json.RawMessage(`{"order":"a","amount":-1}`)
	for range 3 {
		wantCode(t, c, broken, fault.OutcomeUnknown)
	}
	wantEffects(t, s, "pay a")
}

func TestAKeyIsGoodForOneCall(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), nil)
	c := open(t, s)
	value(t, c, pay("a", "k"))
	wantCode(t, c, pay("b", "k"), fault.OpFailed)
	wantCode(t, c, book("a", "k"), fault.OpFailed)
	same := pay("a", "k")
	same.Args = json.RawMessage(` { "order" : "a" } `)
	value(t, c, same)
	wantEffects(t, s, "pay a")
}

func TestWithoutAKeyNothingIsPromised(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), nil)
	c := open(t, s)
	value(t, c, pay("a", ""))
	value(t, c, pay("a", ""))
	value(t, c, book("a", ""))
	if got := value(t, c, book("a", "")); got != `{"receipt":"booking 2 of a"}` {
		t.Error(got)
	}
	wantEffects(t, s, "pay a", "pay a")
}

func TestKeysAreForgottenInTimeAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep = time.Hour
		s := newShop(newStore(t), func(o *mcpserver.Options) { o.KeepKeys, o.MaxKeys = keep, 3 })
		c := open(t, s)
		for i := range 3 {
			value(t, c, pay("a", fmt.Sprint(i)))
			time.Sleep(time.Minute)
		}
		wantCode(t, c, pay("a", "4"), fault.OpFailed)
		wantCode(t, c, book("a", "5"), fault.OpFailed)
		value(t, c, pay("a", "0"))
		wantEffects(t, s, "pay a", "pay a", "pay a")

		time.Sleep(keep - 2*time.Minute) // two of three are a minute and more too old
		value(t, c, book("a", "5"))
		value(t, c, pay("a", "0"))
		wantCode(t, c, pay("a", "6"), fault.OpFailed)
		value(t, c, pay("a", "2"))
		wantEffects(t, s, "pay a", "pay a", "pay a", "pay a")
		time.Sleep(2 * keep)
		for i := range 3 {
			value(t, c, pay("a", fmt.Sprint("new", i)))
		}
		n := 0
		err := s.store.View(t.Context(), func(tx store.Tx) error {
			for _, bucket := range []string{"mcpserver/keys", "mcpserver/expiry"} {
				for _, err := range tx.Scan(bucket, store.Range{}) {
					if n++; err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil || n != 6 {
			t.Errorf("%d records, want 6; %v", n, err)
		}
	})
}

func TestAnExpiredKeyIsANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(newStore(t), func(o *mcpserver.Options) { o.KeepKeys = time.Hour })
		c := open(t, s)
		const many = 40 // more than are swept at a time
		for i := range many {
			value(t, c, pay(fmt.Sprint(i), fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		last := pay(fmt.Sprint(many-1), fmt.Sprint(many-1))
		value(t, c, last)
		if n := len(s.effects()); n != many+1 {
			t.Errorf("%d effects, want %d", n, many+1)
		}
		value(t, c, pay("other", "other")) // sweeps the rest, and must not sweep last
		value(t, c, last)
		if n := len(s.effects()); n != many+2 {
			t.Errorf("%d effects, want %d", n, many+2)
		}
	})
}

// TestTheLastOneWhoLeavesSeesTheWorkEnd has a handler that goes on after
// everyone gave up: it must not be lost sight of by its session.
func TestTheLastOneWhoLeavesSeesTheWorkEnd(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), nil)
	at, tidied := make(chan struct{}), make(chan struct{})
	s.hold = func(ctx context.Context, _ *sdk.CallToolRequest, point string) {
		if point == "after" {
			close(at)
			<-ctx.Done()
			<-tidied
		}
	}
	conns, err := mcp.InMemory(s.server, &mcp.InMemoryOptions{Grace: 50 * time.Millisecond}).Connect(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	go func() {
		<-at
		cancel()
	}()
	if _, err := conns[0].Call(ctx, pay("a", "k")); !errors.Is(err, fault.OutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	if err := conns[0].Release(within(t)); !errors.Is(err, fault.Closed) {
		t.Errorf("the session ended before its handler: %v", err)
	}
	close(tidied)
	value(t, open(t, s), pay("a", "k")) // it ended well
	wantEffects(t, s, "pay a")
}

func TestARandomStoryKeepsEachPromise(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), nil)
	s.refusals = 5
	c := open(t, s)
	r := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	answers := map[string]string{}
	var all sync.WaitGroup
	for range 200 {
		key := fmt.Sprint(r.IntN(20))
		op := []func(order, key string) *provider.CallRequest{pay, book}[r.IntN(2)]
		req := op(key, op("", "").Op+key)
		all.Go(func() {
			res, err := c.Call(within(t), req)
			if err != nil {
				if !errors.Is(err, fault.OpFailed) {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if first, ok := answers[string(req.Key)]; ok && first != string(res.Value) {
				t.Errorf("key %s: %s and %s", req.Key, first, res.Value)
			}
			answers[string(req.Key)] = string(res.Value)
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, e := range s.effects() {
		if seen[e] {
			t.Errorf("%s twice", e)
		}
		seen[e] = true
	}
	for key, a := range answers {
		order, booked := strings.CutPrefix(key, "shop.book")
		if want := `{"receipt":"booking 1 of ` + order + `"}`; booked && a != want {
			t.Errorf("%s: %s, want %s", key, a, want)
		}
	}
}
