package gates

import (
	"context"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// ask sends a call or a read and keeps the answer as it is.
func (f *flight) ask(ctx context.Context, r *Request) error {
	var err error
	switch {
	case f.read:
		err = f.sendRead(ctx, r)
	case r.Send != nil:
		err = f.sendCall(ctx, r)
	default:
		f.out.Sent = false
		return fault.New(fault.NotSent, "the request has neither Send nor Read")
	}
	return sendError(err)
}

func (f *flight) sendCall(ctx context.Context, r *Request) (err error) {
	defer f.contain("the provider", &err)
	res, err := r.Send(ctx, &provider.CallRequest{
		Op: f.call.Op, Args: f.call.Args, Key: f.call.Key, Execution: f.call.Execution,
		Trace: r.Trace, Progress: f.progress(r.Progress), Task: r.Task,
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
	res, err := r.Read(ctx, &provider.ReadRequest{
		Name: f.call.Op, Args: f.call.Args, Execution: f.call.Execution, Trace: r.Trace,
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

func noResult() error {
	return fault.New(fault.ResultInvalid, "the provider returned neither a result nor an error")
}

// progress redacts reports on their way to the caller.
func (f *flight) progress(report func(provider.Progress)) func(provider.Progress) {
	if report == nil {
		return nil
	}
	return func(p provider.Progress) {
		p.Message = f.chain.scrub.String(p.Message)
		report(p)
	}
}

// invoke runs a Go tool.
func (f *flight) invoke(ctx context.Context, r *ToolRequest) (err error) {
	defer f.contain("the tool", &err)
	value, err := r.Invoke(ctx, f.call.Args)
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
	if code == fault.Guarded {
		return (&fault.Error{Code: fault.SteeringDenied, Err: err}).
			WithHint("The server wants an approval first, and nobody can approve calls here.")
	}
	if fe, ok := err.(*fault.Error); ok && fe.Code == code {
		return fe
	}
	return &fault.Error{Code: code, Err: err}
}
