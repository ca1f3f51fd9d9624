package gates

import (
	"context"

	"github.com/bridle-dev/bridle/fault"
)

// reserve is the gate for what the call may cost. It comes after every check
// could refuse, and before somebody is bothered. Asked again, it looks only
// whether there is time left: what is held is not given away meanwhile.
func reserve(_ context.Context, f *flight) error {
	if f.reserved != nil {
		again, err := f.purse.Reserve(Amount{})
		again.Release()
		return err
	}
	var err error
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
	defer f.contain("the meter", new(error))
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
