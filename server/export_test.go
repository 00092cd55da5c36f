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

// Out returns the number of bytes lent.
func (p *Pool) Out() int64 { return p.blocks.Out() }

// Kept returns the number of bytes that are free but not released.
func (p *Pool) Kept() int64 { return p.blocks.Kept() }
