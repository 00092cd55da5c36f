package server

import (
	"context"
	"io/fs"
)

type conditionKey struct{}

// WithCondition returns a context for one Remove, or one Rename of a file, that is made only if
// holds returns nil for the file that has the name then, and otherwise fails with its error. It
// serves programs that examined a file before: it may have been replaced since.
func WithCondition(ctx context.Context, holds func(fs.FileInfo) error) context.Context {
	return context.WithValue(ctx, conditionKey{}, holds)
}

// Condition returns the condition that the request with this context puts on the file, or nil. A
// [View] checks it just before it calls its backend. A backend that can ensure that the file is
// still the one that it checked does so itself, too.
func Condition(ctx context.Context) (holds func(fs.FileInfo) error) {
	holds, _ = ctx.Value(conditionKey{}).(func(fs.FileInfo) error)
	return holds
}

// conditional makes a change if the condition of ctx holds for the file that has the name.
func (v *View) conditional(ctx context.Context, name string, change func() error) error {
	if holds := Condition(ctx); holds != nil {
		info, err := v.lstat(ctx, name)
		if err == nil {
			err = holds(info)
		}
		if err != nil {
			return err
		}
	}
	return change()
}
