// Package turn lets a backend wait until its session may do long work.
package turn

import "context"

// A Taker is a backend that calls [Take] when resolving a path takes long, which only it can know:
// links can make any path long. For other backends the session judges by a path's length.
type Taker interface {
	TakesTurns()
}

type key struct{}

// With returns a context for which Take calls take.
func With(ctx context.Context, take func(context.Context) (end func(), err error)) context.Context {
	return context.WithValue(ctx, key{}, take)
}

// Take waits until the session with this context may do long work, and returns a function that ends
// the turn. Until then the caller must wait for nothing else, in particular for no second turn. The
// error is the context's.
func Take(ctx context.Context) (end func(), err error) {
	take, ok := ctx.Value(key{}).(func(context.Context) (func(), error))
	if !ok {
		return func() {}, ctx.Err()
	}
	return take(ctx)
}
