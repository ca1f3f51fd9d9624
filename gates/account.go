package gates

import (
	"context"

	"github.com/bridle-dev/bridle/fault"
)

// reserve is the gate for what the call may cost. It comes after every check
// that could refuse, and before somebody is bothered.
func reserve(_ context.Context, f *flight) error {
	var err error
	f.reserved.Release() // by an earlier round of the gates
	f.reserved, err = f.purse.Reserve(Amount{Calls: 1})
	return err
}

// settle counts the call if it was sent, and else gives back what was reserved.
func (f *flight) settle() {
	if f.out.Sent {
		f.reserved.Settle(Amount{Calls: 1})
		return
	}
	f.reserved.Release()
}

// meter tells what the call used, as its caller gets it.
func meter(ctx context.Context, f *flight) {
	if f.chain.meter == nil {
		return
	}
	var err error
	defer func() {
		if err != nil {
			f.chain.log.Error("the meter failed", "error", err)
		}
	}()
	defer f.contain("the meter", &err)
	f.chain.meter.Record(ctx, usageOf(&f.call, &f.out))
}

// audit writes the record of the call.
func audit(ctx context.Context, f *flight) {
	if err := f.trail.end(ctx, &f.out); err != nil {
		f.out.Unrecorded = err
	}
}

// note writes a gate's word into the record.
func (f *flight) note(gate string, err error) {
	if f.trail == nil {
		return
	}
	if err == nil {
		f.trail.asked(gate, Allow, "")
		return
	}
	verdict := Deny
	if fault.CodeOf(err) == fault.NotSent {
		verdict = Abstain // the call was given up
	}
	f.trail.asked(gate, verdict, err.Error())
}
