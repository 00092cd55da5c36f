package server

import (
	"context"
	"io/fs"
)

type conditionKey struct{}

// WithCondition returns a context for one Remove, or one Rename of a file, that is to be made only
// if holds returns nil for the file that has the name then, and fails with its error otherwise. It
// is for programs that have looked at a file before: somebody may have replaced it since.
func WithCondition(ctx context.Context, holds func(fs.FileInfo) error) context.Context {
	return context.WithValue(ctx, conditionKey{}, holds)
}

// Condition returns what the request with this context asks of the file, or nil. A [View] looks
// just before it asks its backend. A backend that can make sure that the file is still the one that
// it has looked at does so itself, too.
func Condition(ctx context.Context) (holds func(fs.FileInfo) error) {
	holds, _ = ctx.Value(conditionKey{}).(func(fs.FileInfo) error)
	return holds
}

// conditional makes a change if the condition of ctx holds for what has a name.
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
