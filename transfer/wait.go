package transfer

import (
	"context"
	"os"
	"time"
)

// openWaiting opens a file whose opening may wait for another program, as that of a named pipe
// does. When ctx ends first, the wait is left to itself.
func openWaiting(ctx context.Context, open func() (*os.File, error)) (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		f, err := open()
		opened <- result{f, err}
	}()
	select {
	case r := <-opened:
		return r.file, r.err
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				r.file.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// interruptible has the Reads and Writes of a pipe, a terminal or the like, which wait for another
// program or a person, end with ctx, by os.ErrDeadlineExceeded, until free is called. Files that
// cannot wait do not take a deadline.
func interruptible(ctx context.Context, f *os.File) (free func()) {
	stop := context.AfterFunc(ctx, func() { f.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}
