package gates

import (
	"context"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// sendTo sends a call or a read and keeps the answer as it is.
func (f *flight) sendTo(ctx context.Context, r *Request) error {
	var err error
	switch {
	case f.read && f.target.Read != nil:
		err = f.sendRead(ctx, r)
	case !f.read && f.target.Send != nil:
		err = f.sendCall(ctx, r)
	default:
		f.out.Sent = false
		return fault.New(fault.NotSent, "the target has no way to send it")
	}
	return sendError(err)
}

func (f *flight) sendCall(ctx context.Context, r *Request) (err error) {
	defer f.contain("the provider", &err)
	res, err := f.target.Send(ctx, &provider.CallRequest{
		Op: f.call.Op, Args: f.wire, Key: f.call.Key, Approval: f.token(), Execution: f.call.Execution,
		Trace: r.Trace, Progress: f.progress(r.Progress), Task: f.task(r.Task),
	})
	if err != nil {
		return err
	}
	if res == nil {
		return noResult()
	}
	f.out.Value, f.out.Content, f.out.Identity = res.Value, res.Content, res.Identity
	return nil
}

func (f *flight) sendRead(ctx context.Context, r *Request) (err error) {
	defer f.contain("the provider", &err)
	res, err := f.target.Read(ctx, &provider.ReadRequest{
		Name: f.call.Op, Args: f.wire, Execution: f.call.Execution, Trace: r.Trace,
	})
	if err != nil {
		return err
	}
	if res == nil {
		return noResult()
	}
	f.out.Value, f.out.Content, f.out.Identity = res.Value, res.Content, res.Identity
	return nil
}

// byPolicy is the token of a call that needs no person's approval, since the
// policy names its operation.
const byPolicy = "policy"

// token tells a peer that guards something that the host agrees.
func (f *flight) token() string {
	if f.call.Approval == "" && f.permitted {
		return byPolicy
	}
	return string(f.call.Approval)
}

func noResult() error {
	return fault.New(fault.ResultInvalid, "the provider returned neither a result nor an error")
}

// progress redacts reports on their way to the caller.
func (f *flight) progress(report func(provider.Progress)) func(provider.Progress) {
	if report == nil {
		return nil
	}
	return func(p provider.Progress) {
		defer f.contain("Request.Progress", new(error)) // it runs in a goroutine of the provider
		p.Message = f.chain.scrub.String(p.Message)
		report(p)
	}
}

// task contains what is told about a task.
func (f *flight) task(told func(provider.TaskID) error) func(provider.TaskID) error {
	if told == nil {
		return nil
	}
	return func(id provider.TaskID) (err error) {
		defer f.contain("Request.Task", &err)
		return told(id)
	}
}

// invoke runs a Go tool.
func (f *flight) invoke(ctx context.Context, r *ToolRequest) (err error) {
	defer f.contain("the tool", &err)
	value, err := r.Invoke(ctx, f.wire)
	if err != nil {
		return fault.From(err, fault.OpFailed)
	}
	f.out.Value = value
	return nil
}

// sendError gives a provider's error the code that says what may have happened:
// the most cautious one if there are several, outcome unknown if there is none.
// A server that guards what was called has refused it like a policy would.
func sendError(err error) error {
	if err == nil {
		return nil
	}
	for _, code := range []fault.Code{fault.OutcomeUnknown, fault.ResultInvalid, fault.OpFailed,
		fault.Guarded, fault.Unavailable, fault.NotSent} {
		if errors.Is(err, code) {
			return withCode(err, code)
		}
	}
	return &fault.Error{Code: fault.OutcomeUnknown, Err: err}
}

func withCode(err error, code fault.Code) error {
	if fe, ok := err.(*fault.Error); ok && fe.Code == code {
		return fe
	}
	return &fault.Error{Code: code, Err: err}
}

// denyGuarded makes the refusal of a peer that guards what was called one like
// that of a policy.
func denyGuarded(err error) error {
	if fault.CodeOf(err) != fault.Guarded {
		return err
	}
	return (&fault.Error{Code: fault.SteeringDenied, Err: err}).
		WithHint("The server wants an approval first. Set the harness's Config.Approver, so that somebody can give it.")
}
