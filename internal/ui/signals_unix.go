//go:build unix

package ui

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// settleSignals waits until the signals that were sent to us before have been handled, which takes
// long on a busy machine. A thread takes the lowest of its signals first (signal(7) on Linux), so
// that these have been seen when a higher one is, which we send to ourselves. Nobody minds that one.
func settleSignals() {
	echo := make(chan os.Signal, 1)
	signal.Notify(echo, syscall.SIGCHLD)
	defer signal.Stop(echo)
	if syscall.Kill(os.Getpid(), syscall.SIGCHLD) == nil {
		select {
		case <-echo:
		case <-time.After(time.Second): // it is blocked
		}
	}
}
