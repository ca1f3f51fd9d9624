package secrets

import (
	"context"
	"errors"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/glob"
)

// Use says which secret is wanted, and for what: one field of one call.
type Use struct {
	Ref        Ref    // the secret's name
	Connection string // the connection whose operation is called
	Op         string // the operation
	Field      string // JSON Pointer (RFC 6901) of the field in the arguments
}

// Resolver knows the values of secrets. Each is asked for when a call is about
// to be sent, after everything that may refuse it, and is not kept: a rotated
// secret takes effect with the next call.
//
// Resolve is called concurrently and must end with ctx. It never retries. It
// returns [Unknown] for a name that it does not know, and any other error to
// say that the secret must not be used or cannot be had now. Its errors must
// not hold the value.
type Resolver interface {
	Resolve(ctx context.Context, use Use) (Value, error)
}

// ResolverFunc is a function as a Resolver.
type ResolverFunc func(ctx context.Context, use Use) (Value, error)

// Resolve calls f.
func (f ResolverFunc) Resolve(ctx context.Context, use Use) (Value, error) { return f(ctx, use) }

// Map is a Resolver that holds its values. It must not change while in use.
type Map map[Ref]Value

// Resolve implements Resolver.
func (m Map) Resolve(_ context.Context, use Use) (Value, error) {
	v, ok := m[use.Ref]
	if !ok {
		return Value{}, Unknown(use.Ref)
	}
	return checked(use.Ref, v)
}

// Unknown is the error of a resolver that does not know a name, a
// *fault.Error with code fault.SecretUnavailable. [First] asks the next
// resolver after this error and after no other.
func Unknown(ref Ref) error {
	return (&fault.Error{Code: fault.SecretUnavailable, Err: &unknown{ref}}).
		WithHint("Check the spelling of the name, or add a resolver that knows it.")
}

// unknown makes the errors of Unknown recognisable.
type unknown struct{ ref Ref }

func (u *unknown) Error() string { return "unknown secret " + fault.Quote(string(u.ref)) }

// First asks one resolver after the other until one knows the name. Only
// [Unknown] moves it on: a secret that a resolver refuses, or fails to read, is
// not looked for elsewhere.
func First(resolvers ...Resolver) Resolver {
	return ResolverFunc(func(ctx context.Context, use Use) (Value, error) {
		for _, r := range resolvers {
			v, err := r.Resolve(ctx, use)
			if _, next := errors.AsType[*unknown](err); !next {
				return v, err
			}
		}
		return Value{}, Unknown(use.Ref)
	})
}

// Restrict lets r resolve for the given uses only. In each field of a use "*"
// stands for any run of characters, and an empty field for anything. A name that
// none of them covers is [Unknown] here; one that is covered, but not where it
// is wanted, is fault.SecretUnavailable.
func Restrict(r Resolver, uses ...Use) Resolver {
	uses = append([]Use(nil), uses...)
	return ResolverFunc(func(ctx context.Context, use Use) (Value, error) {
		known := false
		for _, allowed := range uses {
			if allowed.covers(use) {
				return r.Resolve(ctx, use)
			}
			known = known || fits(string(allowed.Ref), string(use.Ref))
		}
		if !known {
			return Value{}, Unknown(use.Ref)
		}
		return Value{}, misplaced(use)
	})
}

func misplaced(use Use) error {
	return fault.New(fault.SecretUnavailable, "secret %s must not go into %s of %s.%s",
		fault.Quote(string(use.Ref)), fault.Quote(use.Field), fault.Quote(use.Connection), fault.Quote(use.Op)).
		WithHint("Allow this use where the resolver is restricted, or use another secret.")
}

func (u Use) covers(use Use) bool {
	return fits(string(u.Ref), string(use.Ref)) && fits(u.Connection, use.Connection) &&
		fits(u.Op, use.Op) && fits(u.Field, use.Field)
}

func fits(pattern, name string) bool { return pattern == "" || glob.Match(pattern, name) }

// checked refuses values that cannot be kept secret, telling which one it is.
func checked(ref Ref, v Value) (Value, error) {
	if err := Check(v); err != nil {
		return Value{}, fault.New(fault.SecretUnavailable, "secret %s: %w", fault.Quote(string(ref)), err)
	}
	return v, nil
}
