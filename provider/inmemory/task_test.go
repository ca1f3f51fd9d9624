package inmemory_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/inmemory"
)

// rendering takes a minute, as a task.
func rendering() *inmemory.Provider {
	return single(inmemory.Func(func(ctx context.Context, _ *inmemory.Call, _ struct{}) (string, error) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Minute):
			return "rendered", nil
		}
	}).With(provider.Facts{Long: true, Once: true}))
}

// launch begins a task and stops waiting for it.
func launch(t *testing.T, c provider.Conn, key provider.Key) provider.TaskID {
	t.Helper()
	var id provider.TaskID
	notStored := errors.New("disk is full")
	_, err := c.Call(t.Context(), &provider.CallRequest{Op: "op", Key: key,
		Task: func(told provider.TaskID) error { id = told; return notStored }})
	if !errors.Is(err, notStored) || fault.CodeOf(err) != fault.OutcomeUnknown || id == "" {
		t.Fatalf("got %v, task %q", err, id)
	}
	return id
}

func awaitTask(t *testing.T, c provider.Conn, id provider.TaskID) (string, error) {
	t.Helper()
	tasker, _ := provider.Ability[provider.Tasker](c)
	res, err := tasker.AwaitTask(t.Context(), id)
	if err != nil {
		return "", err
	}
	return string(res.Value), nil
}

func TestTaskOutlivesItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := rendering()
		id := launch(t, connect(t, p), "")
		p.Drop()
		if got, err := awaitTask(t, connect(t, p), id); err != nil || got != `"rendered"` {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

func TestTaskOfARepeatedKeyIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, rendering())
		if first, again := launch(t, c, "k"), launch(t, c, "k"); first != again {
			t.Errorf("one key made the tasks %s and %s", first, again)
		}
		if launch(t, c, "k") == launch(t, c, "other") {
			t.Error("two keys made one task")
		}
	})
}

func TestTaskWhoseIDNobodyKnowsEndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		c := connect(t, single(inmemory.Func(func(ctx context.Context, _ *inmemory.Call, _ struct{}) (any, error) {
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}).With(provider.Facts{Long: true})))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := call(ctx, c, "op"); fault.CodeOf(err) != fault.OutcomeUnknown {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("the task goes on although nobody can come back for it")
		}
	})
}

func TestTaskWhoseIDIsKnownOutlivesTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, rendering())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var id provider.TaskID
		_, err := c.Call(ctx, &provider.CallRequest{Op: "op", Args: json.RawMessage(`{}`),
			Task: func(told provider.TaskID) error { id = told; return nil }})
		if fault.CodeOf(err) != fault.OutcomeUnknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got, err := awaitTask(t, c, id); err != nil || got != `"rendered"` {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

func TestEndedTasks(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*testing.T, *inmemory.Provider, provider.Tasker, provider.TaskID)
		peer string
	}{
		{"cancelled", func(t *testing.T, _ *inmemory.Provider, c provider.Tasker, id provider.TaskID) {
			if err := c.CancelTask(t.Context(), id); err != nil {
				t.Error(err)
			}
		}, "cancelled"},
		{"of a replaced thing", func(_ *testing.T, p *inmemory.Provider, _ provider.Tasker, _ provider.TaskID) {
			p.Replace()
		}, "unknown_task"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := rendering()
				c := connect(t, p)
				tasker, _ := provider.Ability[provider.Tasker](c)
				id := launch(t, c, "")
				tt.end(t, p, tasker, id)
				_, err := awaitTask(t, c, id)
				if fe, ok := errors.AsType[*fault.Error](err); !ok || fe.Code != fault.OpFailed || fe.PeerCode != tt.peer {
					t.Errorf("got %v, want refused as %s", err, tt.peer)
				}
			})
		})
	}
}

func TestCloseEndsTasksAndConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := rendering()
		c := connect(t, p)
		launch(t, c, "")
		for range 2 {
			if err := p.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		<-c.Done()
		if !errors.Is(c.Err(), fault.Closed) {
			t.Errorf("Err is %v", c.Err())
		}
		if _, err := p.Connect(t.Context(), nil); fault.CodeOf(err) != fault.NotSent || !errors.Is(err, fault.Closed) {
			t.Errorf("Connect: %v", err)
		}
	})
}
