package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/usftp/usftp/dial"
)

// The exit codes. 255 is what ssh, scp and sftp give when there is no connection, and what scripts
// around them look for; 130 and its like are what a shell reports for a program that a signal has
// ended.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitNoHost  = 255
	exitSignals = 128 // plus the signal's number
)

// exitCodes is the table for help and the man page.
var exitCodes = []struct{ code, meaning string }{
	{"0", "everything was copied, or is what the list says"},
	{"1", "a file could not be copied, or is not what the list says; others may have been"},
	{"2", "the command line is wrong; nothing was done"},
	{"129", "ended by SIGHUP: the terminal went away"},
	{"130", "ended by SIGINT: Ctrl-C"},
	{"141", "the reader of standard output went away"},
	{"143", "ended by SIGTERM"},
	{"255", "a host could not be reached or logged in to, does not speak SFTP, or the connection to it was lost"},
}

// A usageError is a command line that cannot be carried out.
type usageError struct {
	command string // whose help tells more
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// An interruption is a signal that asks us to end; it is the cause of the context's end.
type interruption struct{ signal os.Signal }

func (e *interruption) Error() string {
	if e.signal == os.Interrupt {
		return "interrupted"
	}
	return "ended by a signal (" + e.signal.String() + ")"
}

func (e *interruption) code() int {
	if s, ok := e.signal.(syscall.Signal); ok {
		return exitSignals + int(s)
	}
	return exitSignals + 2
}

const exitOutputGone = exitSignals + 13 // SIGPIPE

// codeOf gives the exit code for one failure.
func codeOf(err error) int {
	var usage *usageError
	var signal *interruption
	var host *dial.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &signal):
		return signal.code()
	case readerGone(err):
		return exitOutputGone
	case errors.As(err, &host), errors.Is(err, net.ErrClosed):
		return exitNoHost
	}
	return exitFailed
}

// interrupted gives the signal that has ended ctx, if one has.
func interrupted(ctx context.Context) *interruption {
	var signal *interruption
	errors.As(context.Cause(ctx), &signal)
	return signal
}
