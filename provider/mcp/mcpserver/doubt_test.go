package mcpserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
	"github.com/bridle-dev/bridle/store"
)

// TestTwoProcessesOnOneStore runs the same key in two kits that know nothing of
// each other.
func TestTwoProcessesOnOneStore(t *testing.T) {
	t.Parallel()
	db := newStore(t)
	one, two := newShop(db, nil), newShop(db, nil)
	at, goOn := make(chan struct{}), make(chan struct{})
	one.hold = func(_ context.Context, _ *sdk.CallToolRequest, point string) {
		if point == "before" {
			at <- struct{}{}
			<-goOn
		}
	}
	a, b := open(t, one), open(t, two)
	for _, op := range []func(order, key string) *provider.CallRequest{pay, book} {
		req := op("a", op("", "").Op)
		var first string
		var done sync.WaitGroup
		done.Go(func() { first = value(t, a, req) })
		<-at
		meanwhile := ""
		if req.Op == "shop.pay" {
			wantCode(t, b, req, fault.OutcomeUnknown)
		} else {
			meanwhile = value(t, b, req)
		}
		goOn <- struct{}{}
		done.Wait()
		if again := value(t, b, req); again != first || meanwhile != "" && meanwhile != first {
			t.Errorf("%s: %s here, %s and %s there", req.Op, first, meanwhile, again)
		}
	}
	if got := value(t, b, book("a", "another")); got != `{"receipt":"booking 2 of a"}` {
		t.Errorf("the next booking is %s, so the first one was made twice", got)
	}
	wantEffects(t, one, "pay a")
	wantEffects(t, two)
}

// TestTheFirstOutcomeIsEverybodys runs an operation that hands its key on in two
// processes at once: both work, and give the answer of the first one to end.
func TestTheFirstOutcomeIsEverybodys(t *testing.T) {
	t.Parallel()
	db := newStore(t)
	at, goOn := make(chan struct{}), make(chan struct{})
	relay := func(name string, hold bool) provider.Conn {
		k, s := newKit(&mcpserver.Options{Store: db, Repeatable: []string{"relay"}, Operations: []provider.Operation{
			{Name: "relay", Hints: provider.Hints{Destructive: no()}, Facts: provider.Facts{Once: true}},
		}})
		mcpserver.Add(k, "relay", func(context.Context, *mcpserver.Call, struct{}) (string, error) {
			if hold {
				at <- struct{}{}
				<-goOn
			}
			return name, nil
		})
		return connect(t, mcp.InMemory(s, nil))
	}
	slow, quick := relay("slow", true), relay("quick", false)
	req := &provider.CallRequest{Op: "relay", Key: "k"}
	var done sync.WaitGroup
	done.Go(func() {
		if got := value(t, slow, req); got != `"quick"` {
			t.Errorf("the later one answered %s", got)
		}
	})
	<-at
	value(t, quick, req)
	close(goOn)
	done.Wait()
}

// failing is a store that fails the updates that are counted out.
type failing struct {
	store.Store
	mu   sync.Mutex
	left int // guarded by mu; updates that still succeed
}

var errDisk = errors.New("no space left")

func (f *failing) set(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = n
}

func (f *failing) Update(ctx context.Context, fn func(store.Tx) error) error {
	f.mu.Lock()
	f.left--
	fails := f.left < 0
	f.mu.Unlock()
	if fails {
		return fault.New(fault.StoreFailed, "%w", errDisk)
	}
	return f.Store.Update(ctx, fn)
}

func TestAStoreThatFailsNeverMakesAnEffectTwice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		op    func(order, key string) *provider.CallRequest
		works int        // updates before the disk is full
		code  fault.Code // of the call then
		again fault.Code // of the call once the disk has room again
	}{
		{pay, 0, fault.OpFailed, ""},                         // not begun
		{pay, 1, fault.OutcomeUnknown, fault.OutcomeUnknown}, // carried out, not recorded
		{book, 0, fault.OutcomeUnknown, ""},                  // a plain error of the handler, yet nothing is kept
	} {
		db := &failing{Store: newStore(t)}
		s := newShop(db, nil)
		c := open(t, s)
		db.set(tt.works)
		wantCode(t, c, tt.op("a", "k"), tt.code)
		db.set(1000)
		wantCode(t, c, tt.op("a", "k"), tt.again)
		wantCode(t, c, tt.op("a", "k"), tt.again)
		if n := len(s.effects()); n > 1 {
			t.Errorf("%d effects", n)
		}
	}
}

func TestARecordOfAnotherFormatIsNotTakenForNone(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), nil)
	c := open(t, s)
	value(t, c, pay("a", "k"))
	err := s.store.Update(t.Context(), func(tx store.Tx) error {
		for r, err := range tx.Scan("mcpserver/keys", store.Range{}) {
			if err != nil {
				return err
			}
			if err := tx.Put("mcpserver/keys", r.Key, []byte(`{"v":99}`)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, c, pay("a", "k"), fault.OpFailed)
	wantEffects(t, s, "pay a")
}

func TestAKeyBelongsToItsUser(t *testing.T) {
	t.Parallel()
	s := newShop(newStore(t), nil)
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.server }, &sdk.StreamableHTTPOptions{Stateless: true})
	site := httptest.NewServer(auth.RequireBearerToken(verify, nil)(handler))
	t.Cleanup(site.Close)
	as := func(user string) provider.Conn {
		return connect(t, mcp.HTTP(site.URL, &mcp.HTTPOptions{Headers: []mcp.Header{{Name: "Authorization", Value: "Bearer " + user + "-token"}}}))
	}
	alice, bob := as("alice"), as("bob")
	value(t, alice, pay("a", "k"))
	value(t, bob, pay("b", "k")) // neither refused nor alice's receipt
	value(t, as("alice"), pay("a", "k"))
	wantEffects(t, s, "pay a", "pay b")
}
