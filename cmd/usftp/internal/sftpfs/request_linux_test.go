package sftpfs

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A signal also interrupts a call that had only just begun when it came. A call that has ended
// waits for no signal and leaves nothing behind.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &FS{ctx: t.Context(), link: &link{timeout: time.Hour, down: time.Now()}}
		header := &fuse.InHeader{Caller: fuse.Caller{Pid: uint32(os.Getpid())}}
		cancel := make(chan struct{})
		ctx, stop := f.request(cancel, header)
		defer stop()
		other, stopOther := f.request(cancel, header)
		close(cancel)
		stopOther()
		if context.Cause(other) != context.Canceled {
			t.Errorf("the call that has ended: %v", context.Cause(other))
		}
		time.Sleep(interruptDelay + interruptGrace - time.Millisecond)
		if ctx.Err() != nil {
			t.Errorf("the program handles the signal, but its call ended early: %v",
				context.Cause(ctx))
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if context.Cause(ctx) != errInterrupted {
			t.Errorf("interrupted: %v", context.Cause(ctx))
		}
	})
}

// What ends a program interrupts its call, whether or not it handles the signal. A signal that it
// has blocked, or of another kind, does not.
func TestPendingSignals(t *testing.T) {
	for status, want := range map[string]bool{
		"SigPnd:\t0000000000000000\nShdPnd:\t0000000000000002\nSigBlk:\t0000000000000000\n": true,
		"SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\n": true,
		"SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\nSigBlk:\t0000000000000000\n": true,
		"SigPnd:\t0000000000000000\nShdPnd:\t0000000000000002\nSigBlk:\t0000000000000002\n": false,
		"SigPnd:\t0000000000000000\nShdPnd:\t0000000000010000\nSigBlk:\t0000000000000000\n": false,
		"Name:\t2\nSigIgn:\t0000000000000002\nSigCgt:\t0000000000000002\n":                  false,
	} {
		if got := hasPending(strings.NewReader(status), ends); got != want {
			t.Errorf("%q: %v", status, got)
		}
	}
}
