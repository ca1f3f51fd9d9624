package gates

import (
	"context"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/glob"
	"github.com/bridle-dev/bridle/provider"
)

// askPolicy applies the host's policy. What needs an approval is noted for the
// gate that asks for it, which comes after every check that could refuse; where
// nobody can be asked it is refused at once.
func askPolicy(_ context.Context, f *flight) error {
	verdict, why := judge(&f.target.Policy, &f.call.Operation, f.read)
	f.ask, f.permitted = "", false
	switch {
	case verdict == refuse:
		err := fault.New(fault.SteeringDenied, "denied by the policy: %s", why)
		if f.target.Policy.Mode == connection.DenyOthers {
			return err.WithHint("What may be called stands in the policy's Allow list.")
		}
		return err
	case f.doubt != "":
		return f.doubtful()
	case verdict == permit:
		f.permitted = len(f.target.Policy.Allow) > 0 && glob.Any(f.target.Policy.Allow, f.call.Op)
		return nil
	case f.chain.approvals == nil:
		return fault.New(fault.SteeringDenied, "needs an approval: %s", why).
			WithHint("Nobody can approve calls here. Set the harness's Config.Approver, or name the operation in the policy's Allow list and in no other.")
	}
	f.ask = why
	return nil
}

// doubtful wants an approval for a call that may have been made before.
func (f *flight) doubtful() error {
	if f.chain.approvals == nil {
		return fault.New(fault.OutcomeUnknown, "%s", f.doubt).
			WithHint("Look whether it happened. An approver (Config.Approver) can say so, or have it sent again; Entry.OnUnknown decides for all.")
	}
	f.ask = f.doubt
	return nil
}

// ruling is what a policy says about an operation.
type ruling int

const (
	refuse ruling = iota
	askFirst
	permit
)

// judge finds the strictest word: deny, approve, allow, guarded, mode. Patterns
// apply to operations and reads alike; the mode only to operations, since reads
// change nothing.
func judge(p *connection.Policy, op *provider.Operation, read bool) (ruling, string) {
	if pattern, ok := match(p.Deny, op.Name); ok {
		return refuse, "the Deny pattern " + fault.Quote(pattern) + " matches"
	}
	if pattern, ok := match(p.Approve, op.Name); ok {
		return askFirst, "the Approve pattern " + fault.Quote(pattern) + " matches"
	}
	if _, ok := match(p.Allow, op.Name); ok {
		return permit, ""
	}
	if p.Mode == connection.DenyOthers {
		return refuse, "the mode refuses what the Allow patterns do not name"
	}
	if op.Facts.Guarded {
		return askFirst, "its profile guards it"
	}
	if read {
		return permit, ""
	}
	return judgeMode(p, op)
}

func judgeMode(p *connection.Policy, op *provider.Operation) (ruling, string) {
	switch p.Mode {
	case connection.Auto:
		return permit, ""
	case connection.ApproveDestructive:
		if harmless(op, p.TrustAnnotations) {
			return permit, ""
		}
		return askFirst, "it is not known to be harmless"
	case connection.ApproveAll:
		return askFirst, "the mode asks for every operation"
	}
	return refuse, "its mode " + fault.Quote(string(p.Mode)) + " is unknown"
}

// harmless reports whether an operation is known to change nothing. What a
// profile or the host states counts if it says that the operation may be
// repeated and says nothing of effects; what the server says counts only if the
// host trusts it.
func harmless(op *provider.Operation, trust bool) bool {
	facts := op.Facts
	if facts.Effects || facts.Once || facts.Reconcile != "" {
		return false
	}
	if facts.Idempotent || facts.Determinism == provider.Pure {
		return true
	}
	return trust && op.Hints.ReadOnly != nil && *op.Hints.ReadOnly
}

func match(patterns []string, name string) (string, bool) {
	for _, p := range patterns {
		if glob.Match(p, name) {
			return p, true
		}
	}
	return "", false
}

// CheckPolicy reports a policy that cannot mean what was written, an empty
// pattern or an unknown mode, as CONNECTION_INVALID. An empty list is no
// mistake: it matches nothing, so the zero Policy, an empty Allow and an empty
// Deny all leave the decision to Mode.
func CheckPolicy(name connection.Name, p connection.Policy) error {
	for _, list := range lists(p) {
		for _, pattern := range list.patterns {
			if pattern == "" {
				return fault.New(fault.ConnectionInvalid, "empty pattern in Policy.%s", list.name).
					At(string(name), "").WithHint("Name an operation, write * for all of them, or leave the list out.")
			}
		}
	}
	switch p.Mode {
	case connection.Auto, connection.ApproveDestructive, connection.ApproveAll, connection.DenyOthers:
		return nil
	}
	return fault.New(fault.ConnectionInvalid, "unknown Policy.Mode %s", fault.Quote(string(p.Mode))).
		At(string(name), "").WithHint("Use connection.Auto, connection.ApproveDestructive, connection.ApproveAll or connection.DenyOthers.")
}

// Unmatched returns the patterns of p that fit no operation and no read of the
// catalog, each once, in their order: usually a slip of the pen, or a server
// that changed.
func Unmatched(p connection.Policy, c *Catalog) []string {
	var out []string
	seen := map[string]bool{}
	for _, list := range lists(p) {
		for _, pattern := range list.patterns {
			if !seen[pattern] && !c.matches(pattern) {
				out = append(out, pattern)
			}
			seen[pattern] = true
		}
	}
	return out
}

func (c *Catalog) matches(pattern string) bool {
	for _, read := range []bool{false, true} {
		for name := range c.table(read) {
			if glob.Match(pattern, name) {
				return true
			}
		}
	}
	return false
}

type patternList struct {
	name     string
	patterns []string
}

func lists(p connection.Policy) []patternList {
	return []patternList{{"Deny", p.Deny}, {"Approve", p.Approve}, {"Allow", p.Allow}}
}
