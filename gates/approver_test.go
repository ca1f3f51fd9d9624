package gates_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/store"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// later leaves every decision to others.
func later(context.Context, *gates.Approval) (gates.Decision, error) { return gates.Decision{}, nil }

func always(d gates.Decision) gates.Approver {
	return gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) { return d, nil })
}

// ask runs Ask in a bubble over a store of its own.
func ask(t *testing.T, approver gates.Approver, a gates.Approval, check func(*testing.T, *gates.Approvals, *gates.Approval)) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		b := gates.OpenApprovals(s)
		got, err := gates.Ask(t.Context(), b, approver, a, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		check(t, b, got)
		time.Sleep(2 * time.Hour) // approvers that do not listen come to an end
	})
}

func TestAnApproverDecides(t *testing.T) {
	for _, verdict := range []gates.Verdict{gates.Allow, gates.Deny, gates.Guide} {
		ask(t, always(gates.Decision{Verdict: verdict, Reason: "so", By: "dora"}), refund(), func(t *testing.T, b *gates.Approvals, a *gates.Approval) {
			if a.Decision.Verdict != verdict || a.Decision.Reason != "so" || a.Decision.By != "dora" || !a.Closed() {
				t.Errorf("got %+v", a.Decision)
			}
			wantCode(t, b.Decide(t.Context(), a.ID, gates.Decision{Verdict: gates.Allow}), fault.ApprovalClosed)
		})
	}
}

func TestAnApproverThatMisbehavesDenies(t *testing.T) {
	for name, f := range map[string]gates.ApproverFunc{
		"panics": func(context.Context, *gates.Approval) (gates.Decision, error) { panic("s3cret in a panic") },
		"fails": func(context.Context, *gates.Approval) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Allow}, errors.New("s3cret in an error")
		},
		"another word": func(context.Context, *gates.Approval) (gates.Decision, error) {
			return gates.Decision{Verdict: "yes"}, nil
		},
		"another scope": func(context.Context, *gates.Approval) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Allow, Scope: "forever"}, nil
		},
		"other arguments": func(context.Context, *gates.Approval) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Allow, Args: json.RawMessage(`{"amount":1}`)}, nil
		},
		"abstains": later,
		"waits": func(ctx context.Context, _ *gates.Approval) (gates.Decision, error) {
			<-ctx.Done()
			return gates.Decision{Verdict: gates.Allow}, nil
		},
		"is deaf": func(context.Context, *gates.Approval) (gates.Decision, error) {
			time.Sleep(time.Hour)
			return gates.Decision{Verdict: gates.Allow}, nil
		},
		"changes what it is shown": func(_ context.Context, a *gates.Approval) (gates.Decision, error) {
			a.Call.Args, a.ID, a.RefIDs[0] = json.RawMessage(`{}`), "ap-x", "e99"
			return gates.Decision{Verdict: gates.Deny}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			ask(t, f, refund(), func(t *testing.T, b *gates.Approvals, a *gates.Approval) {
				if a.Decision.Verdict != gates.Deny || a.RefIDs[0] != "e12" {
					t.Errorf("got %+v", a)
				}
				kept, err := b.Find(t.Context(), a.ID)
				if err != nil || kept.Decision.Verdict != gates.Deny {
					t.Errorf("the book has %+v, %v", kept, err)
				}
				if text, _ := json.Marshal(kept); strings.Contains(string(text), "s3cret") {
					t.Errorf("what was not redacted is stored: %s", text)
				}
			})
		})
	}
}

func TestWithoutAnApproverTheCallIsDeniedAtOnce(t *testing.T) {
	ask(t, nil, refund(), func(t *testing.T, b *gates.Approvals, a *gates.Approval) {
		if a.Decision.Verdict != gates.Deny || a.ID != "" || len(pending(t, b)) != 0 {
			t.Errorf("got %+v", a)
		}
	})
}

func TestWithoutADecisionTheTimeoutDenies(t *testing.T) {
	start := time.Time{}
	ask(t, gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) {
		start = time.Now()
		return gates.Decision{}, nil
	}), refund(), func(t *testing.T, b *gates.Approvals, a *gates.Approval) {
		if a.Decision.Verdict != gates.Deny || a.Decision.By != "timeout" || time.Since(start) != time.Minute {
			t.Errorf("got %+v after %v", a.Decision, time.Since(start))
		}
		wantCode(t, b.Decide(t.Context(), a.ID, gates.Decision{Verdict: gates.Allow}), fault.ApprovalClosed)
		if next := request(t, b, refund()); next.ID == a.ID || next.Closed() {
			t.Errorf("asked again, it got %+v", next)
		}
	})
}

func TestAnApproverThatIsDeafHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		start := time.Now()
		deaf := gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) {
			time.Sleep(time.Hour)
			return gates.Decision{}, nil
		})
		if _, err := gates.Ask(t.Context(), gates.OpenApprovals(s), deaf, refund(), time.Minute); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > time.Minute+time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Hour)
	})
}

func TestWhoeverDecidesFirstEndsTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		b := gates.OpenApprovals(s)
		returned := false
		approver := gates.ApproverFunc(func(ctx context.Context, a *gates.Approval) (gates.Decision, error) {
			go func() {
				time.Sleep(time.Second)
				if err := b.Decide(t.Context(), a.ID, gates.Decision{Verdict: gates.Allow, By: "http"}); err != nil {
					t.Error(err)
				}
			}()
			<-ctx.Done()
			returned = true
			return gates.Decision{Verdict: gates.Deny}, nil
		})
		a, err := gates.Ask(t.Context(), b, approver, refund(), 0)
		if err != nil || a.Decision.Verdict != gates.Allow || a.Decision.By != "http" {
			t.Errorf("got %+v, %v", a, err)
		}
		if !returned {
			t.Error("the approver was left behind")
		}
	})
}

func TestACallThatIsGivenUpCanStillBeDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		b := gates.OpenApprovals(s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := gates.Ask(ctx, b, gates.ApproverFunc(later), refund(), 0)
		if !errors.Is(err, context.DeadlineExceeded) || fault.CodeOf(err) != fault.Timeout {
			t.Fatalf("got %v", err)
		}
		ids := pending(t, b)
		if len(ids) != 1 {
			t.Fatalf("waiting: %v", ids)
		}
		decide(t, b, ids[0], gates.Decision{Verdict: gates.Allow})
		a, err := gates.Ask(t.Context(), b, always(gates.Decision{Verdict: gates.Deny}), refund(), 0)
		if err != nil || a.ID != ids[0] || a.Decision.Verdict != gates.Allow {
			t.Errorf("resumed: %+v, %v", a, err)
		}
	})
}

func TestAStoreThatFailsEndsTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		b := gates.OpenApprovals(s)
		_, err := gates.Ask(t.Context(), b, gates.ApproverFunc(func(context.Context, *gates.Approval) (gates.Decision, error) {
			return gates.Decision{Verdict: gates.Allow}, s.Close()
		}), refund(), 0)
		if fault.CodeOf(err) != fault.Closed {
			t.Errorf("got %v", err)
		}
	})
}

func TestApproversSeeAllArguments(t *testing.T) {
	a := refund()
	a.Call.Args = json.RawMessage(`{"text":"` + strings.Repeat("x", 300<<10) + `"}`)
	size := 0
	approver := gates.ApproverFunc(func(_ context.Context, a *gates.Approval) (gates.Decision, error) {
		size = len(a.Call.Args)
		return gates.Decision{Verdict: gates.Allow, Args: a.Call.Args}, nil
	})
	ask(t, approver, a, func(t *testing.T, b *gates.Approvals, got *gates.Approval) {
		if size != len(a.Call.Args) || string(got.Call.Args) != string(a.Call.Args) || got.Decision.Verdict != gates.Allow {
			t.Errorf("it saw %d bytes of %d: %+v", size, len(a.Call.Args), got.Decision)
		}
		if again := request(t, b, a); again.ID != got.ID || string(again.Call.Args) != string(a.Call.Args) || again.Preview != "" {
			t.Errorf("a resumed run gets %d bytes of them", len(again.Call.Args))
		}
		kept, err := b.Find(t.Context(), got.ID)
		if err != nil || kept.Call.Args != nil || kept.ArgsBytes != size || len(kept.Preview) < 1<<10 || len(kept.Preview) > 17<<10 {
			t.Errorf("kept: %d bytes, preview of %d, %v", kept.ArgsBytes, len(kept.Preview), err)
		}
	})
}

func TestAQuestionIsAnsweredOnceAndWithItsForm(t *testing.T) {
	question := refund()
	question.Question = &provider.Question{Message: "Which size?", Schema: json.RawMessage(
		`{"type":"object","properties":{"size":{"type":"string","enum":["S","M"]}},"required":["size"]}`)}
	synctest.Test(t, func(t *testing.T) {
		s := store.Memory()
		defer s.Close()
		b := gates.OpenApprovals(s)
		asked := request(t, b, question)
		for _, d := range []gates.Decision{
			{Verdict: gates.Allow}, {Verdict: gates.Allow, Args: json.RawMessage(`{"size":"XL"}`)},
			{Verdict: gates.Allow, Args: json.RawMessage(`["S"]`)}, {Verdict: gates.Allow, Args: json.RawMessage(`{"size":"S","size":"M"}`)},
			{Verdict: gates.Allow, Args: json.RawMessage(`{"size":"S"}`), Scope: gates.ThisExecution},
			{Verdict: gates.Abstain},
		} {
			wantCode(t, b.Decide(t.Context(), asked.ID, d), fault.ArgsInvalid)
		}
		decide(t, b, asked.ID, gates.Decision{Verdict: gates.Allow, Args: json.RawMessage(` {"size" : "S"}`)})
		done, err := b.Find(t.Context(), asked.ID)
		if err != nil || done.Answer().Action != provider.Accept || string(done.Answer().Content) != `{"size":"S"}` {
			t.Errorf("got %+v, %v", done, err)
		}
		if again := request(t, b, question); again.ID == asked.ID || again.Closed() {
			t.Errorf("asked again, it has the answer already: %+v", again)
		}
		unanswered, err := gates.Ask(t.Context(), b, gates.ApproverFunc(later), question, 0)
		if err != nil || unanswered.Answer().Action != provider.Dismiss {
			t.Errorf("without an answer: %+v, %v", unanswered, err)
		}
		refused, err := gates.Ask(t.Context(), b, always(gates.Decision{Verdict: gates.Deny}), question, 0)
		if err != nil || refused.Answer().Action != provider.Decline || refused.Answer().Content != nil {
			t.Errorf("refused: %+v, %v", refused, err)
		}
	})
}
