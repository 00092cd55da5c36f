package server

import (
	"context"
	"runtime"
)

// Occupy takes all turns but some, and returns a function that gives them back.
func (w *Work) Occupy(ctx context.Context, left int) (release func()) {
	turns := max(1, runtime.GOMAXPROCS(0)-1) - left
	for range turns {
		w.begin(ctx, "somebody else", nil)
	}
	return func() {
		for range turns {
			w.end()
		}
	}
}
