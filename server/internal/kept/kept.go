// Package kept keeps directories open during a request of several steps, each of which would open
// the same one.
package kept

import (
	"context"
	"os"
	"sync"
)

// most is the number of directories that a request keeps open.
const most = 4

type contextKey struct{}

type files struct {
	mu  sync.Mutex
	all map[any]*os.File
}

// With returns a context for the steps of one request; end, which must be called after the last
// one, closes the kept files.
func With(ctx context.Context) (with context.Context, end func()) {
	f := &files{all: map[any]*os.File{}}
	return context.WithValue(ctx, contextKey{}, f), func() {
		for _, file := range f.all {
			file.Close()
		}
	}
}

// Keeps reports whether files stay open for further steps.
func Keeps(ctx context.Context) bool { return ctx.Value(contextKey{}) != nil }

// Open opens a file, unless an earlier step has opened one with the same key. release closes it if
// nothing keeps it.
func Open(ctx context.Context, key any, open func() (*os.File, error)) (file *os.File,
	release func(), err error) {
	f, keeps := ctx.Value(contextKey{}).(*files)
	if keeps {
		f.mu.Lock()
		defer f.mu.Unlock()
		if file = f.all[key]; file != nil {
			return file, func() {}, nil
		}
	}
	if file, err = open(); err != nil {
		return nil, nil, err
	}
	if !keeps || len(f.all) == most {
		return file, func() { file.Close() }, nil
	}
	f.all[key] = file
	return file, func() {}, nil
}
