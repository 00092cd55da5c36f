package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/private/pools"
)

// The exit codes. ssh, scp and sftp exit with 255 if there is no connection, and scripts check for
// it; a shell reports 130 and the like for a program ended by a signal.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
	// For sync, as in rsync.
	ExitPartial  = 23
	ExitVanished = 24
	ExitRefused  = 25
	ExitNoHost   = 255
	exitSignals  = 128 // plus the signal's number
)

// ExitCodes is the table for help and the man page.
var ExitCodes = []struct{ Code, Meaning string }{
	{"0", "success"},
	{"1", "something failed, such as copying a file, or check found a difference; the rest may be fine"},
	{"2", "wrong usage; nothing was done"},
	{"23", "sync: some entries could not be copied or deleted; the rest is done"},
	{"24", "sync: files vanished from the source during the run; everything else is done"},
	{"25", "sync: refused to delete, or another run holds the target's lock"},
	{"129", "killed by SIGHUP: the terminal was closed"},
	{"130", "interrupted by Ctrl-C (SIGINT)"},
	{"141", "standard output was closed by its reader"},
	{"143", "killed by SIGTERM"},
	{"255", "could not connect or log in to a host, it has no SFTP, or the connection was lost"},
}

// A UsageError is an invalid command line.
type UsageError struct {
	Command string // its help says more; "" for the command that failed
	Code    int    // the exit code; 0 means 2
	Err     error
}

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// An Interruption is a signal that asks us to end; it is the cause of the context's end.
type Interruption struct{ signal os.Signal }

func (e *Interruption) Error() string {
	if e.signal == os.Interrupt {
		return "interrupted"
	}
	return "killed by a signal (" + e.signal.String() + ")"
}

func (e *Interruption) Code() int {
	return exitSignals + int(e.signal.(syscall.Signal))
}

const ExitOutputGone = exitSignals + 13 // SIGPIPE

// CodeOf returns the exit code for a failure.
func CodeOf(err error) int {
	var usage *UsageError
	var signal *Interruption
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return cmp.Or(usage.Code, ExitUsage)
	case errors.As(err, &signal):
		return signal.Code()
	case ReaderGone(err):
		return ExitOutputGone
	case errors.As(err, new(conn.Unanswered)) && errors.As(err, new(*usftp.StallError)),
		errors.As(err, new(*pools.DeadlyError)):
		// It is about one file; others may be answered.
		return ExitFailed
	case errors.As(err, new(*dial.Error)), errors.Is(err, net.ErrClosed):
		return ExitNoHost
	}
	return ExitFailed
}

// Interrupted returns the signal that has ended ctx, if one has.
func Interrupted(ctx context.Context) *Interruption {
	signal, _ := errors.AsType[*Interruption](context.Cause(ctx))
	return signal
}

// An ExitError ends the program with a code, after the reasons have been reported.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// NoArgs refuses operands.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &UsageError{Err: fmt.Errorf("%s takes no arguments, got %q", cmd.Name(), args[0])}
	}
	return nil
}

// ReasonOf returns an error's text without the operation and the path that package os and others
// put in front.
func ReasonOf(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return err.Error()
}
