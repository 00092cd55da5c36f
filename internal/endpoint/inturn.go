package endpoint

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/private"
)

// turns lists directories on a host that may allow few handles without saying how many. Version 3
// has no status for that: a host that has no more says FAILURE, which may mean anything. So a
// directory that was refused while something else was open is retried until others have been
// closed. Where that never helps, FAILURE means something else. Where it does, directories are from
// then on listed one at a time, and to their end: the consumer of the entries may be waiting for
// files, which need handles, too.
type turns struct {
	turn   chan struct{} // full while a directory is listed
	held   atomic.Int64  // entries in memory that are being consumed
	listed atomic.Int32  // directories that are listed, or are about to be
	helped atomic.Bool   // a retry has helped
	vain   atomic.Int32  // how many directories no retry has helped
}

const (
	// mostAsked limits the retries for a directory, fewAsked as long as no retry has helped, and
	// fewInVain the directories that are retried then.
	mostAsked, fewAsked, fewInVain = 200, 10, 3

	// askPause and longPause are the first and the longest pause before a retry. Others may be waiting
	// for a handle as well.
	askPause, longPause = 20 * time.Millisecond, 160 * time.Millisecond

	// mostInTurn limits the entries of a directory that is listed to its end: some 400 MB. Once there
	// are more in memory, the next directory is listed only when the last one has been consumed.
	mostInTurn = 1 << 20
)

var errTooManyInTurn = errors.New(
	"the directory has too many entries for a host that allows few handles")

// patience returns how often a directory is retried.
func (t *turns) patience() int {
	switch {
	case t.helped.Load():
		return mostAsked
	case t.vain.Load() >= fewInVain:
		return 0
	}
	return fewAsked
}

// isRefused reports whether err may be a refusal because other handles are open.
func (t *turns) isRefused(client *usftp.Client, others bool, err error) bool {
	return errors.Is(err, usftp.ErrSSHFxFailure) && t.patience() > 0 &&
		(others || private.OfClient(client).OpenHandles() > 0)
}

// inTurn lists as [usftp.Client.Entries] does, a directory that was refused, or any on such a host.
func (t *turns) inTurn(ctx context.Context, client *usftp.Client,
	dir string) iter.Seq2[*usftp.File, error] {
	return func(yield func(*usftp.File, error) bool) {
		select {
		case t.turn <- struct{}{}:
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
			return
		}
		pass := sync.OnceFunc(func() { <-t.turn })
		defer pass()
		files, err := t.read(ctx, client, dir)
		n := int64(len(files))
		defer t.held.Add(-n)
		if t.held.Add(n) <= mostInTurn {
			pass()
		}
		for _, f := range files {
			if !yield(f, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (t *turns) read(ctx context.Context, client *usftp.Client,
	dir string) (files []*usftp.File, err error) {
	for asked := 0; ; asked++ {
		if asked > 0 || !t.helped.Load() { // on such a host no other directory is open now
			if err := pace.Sleep(ctx, min(askPause<<min(asked, 10), longPause)); err != nil {
				return nil, err
			}
		}
		err = nil
		for f, listErr := range client.Entries(dir) {
			if err = listErr; err == nil && len(files) == mostInTurn {
				err = &fs.PathError{Op: "list", Path: dir, Err: errTooManyInTurn}
			}
			if err != nil {
				break
			}
			files = append(files, f)
		}
		switch {
		case len(files) > 0 || !errors.Is(err, usftp.ErrSSHFxFailure):
			t.helped.Store(t.helped.Load() || err == nil)
			return files, err
		case asked >= t.patience():
			t.vain.Add(1)
			return nil, err
		}
	}
}
