package server

import (
	"context"
	"runtime"
)

// Occupy takes all turns, and returns a function that gives them back.
func (w *Work) Occupy(ctx context.Context) (release func()) {
	turns := max(1, runtime.GOMAXPROCS(0)-1)
	for range turns {
		w.begin(ctx, "somebody else", nil)
	}
	return func() {
		for range turns {
			w.end()
		}
	}
}
