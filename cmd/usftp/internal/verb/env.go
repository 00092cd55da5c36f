// Package verb implements the everyday verbs on one host: ls, cat, rm, find and the rest. Each is a
// function that takes an [Env], which says where it runs and where its output goes:
//
//	env := &verb.Env{Client: client, Host: "user@host", Out: os.Stdout, Say: say}
//	err := verb.List(ctx, env, verb.ListOptions{Long: true}, []string{"dir", "file"})
//
// Operands are paths on the host, already expanded: verbs handle neither patterns nor "host:".
// Relative paths start in Env.Dir, or in the login directory if that is empty. They are printed as
// given.
//
// A verb reports each failure by Say, as one line, and continues with the rest. It then returns an
// [*ui.ExitError] with the exit code of the tool of the same name: everything has been reported.
// Any other error has not been reported and has ended the verb: the connection is lost (errors.Is
// net.ErrClosed), the context has ended, or the output cannot be written. A [*ui.UsageError] is a
// mistake in the options.
//
// Each verb has a file, and a run of it is a job (job.go). After a failure, reasons.go finds out
// the reason that the server did not give. All recursive verbs share one walker (walk.go), which
// lists directories ahead of the visit, and one pipeline (pipeline.go), which starts changes
// without waiting for them, so that large trees and long links take little time. Both use bounded
// memory, and output is in order.
package verb

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/ui"
)

// An Env is where a verb runs. Only Client, Out and Say must be set. Only one verb at a time may
// use it.
type Env struct {
	Client *usftp.Client
	Host   string // for messages and JSON: "user@host"
	Dir    string // where relative paths start; absolute, or "" for the login's directory
	Prefix string // printed in front of each path, such as "host:" if there are several hosts

	Out io.Writer         // the verb's output, which it buffers
	Say func(line string) // takes one line about a failure, safe for a terminal

	// Waiting is called again and again while a verb waits, unless it is nil. It may end the verb's
	// context once Out has no reader any more.
	Waiting func()

	// Ask asks the user before a file is removed or replaced. Nil means that nobody can be asked,
	// which counts as no.
	Ask func(ctx context.Context, question string) (yes bool, err error)

	// Run runs a program on this machine, for find -exec; nil means that programs cannot be run.
	// Operand returns how other commands name a path on the host; nil means as it is.
	Run     func(ctx context.Context, argv []string) error
	Operand func(name string) string

	// Renew replaces the connection, which was lost with err; progress means that output was printed
	// since the last call. It returns nil if there is no new connection. Nil means that connections
	// are not replaced.
	Renew func(err error, progress bool) *usftp.Client
	Again bool // the verb is run again, since a connection was lost

	Terminal bool // Out is a terminal: use columns, colours, and printable names
	Width    int  // of the terminal; 0 means 80
	Colors   *Colors
	JSON     bool // print JSON objects instead, one per line
	Verbose  bool // -v: rm, mv, mkdir and the like print each change

	Now func() time.Time // nil means time.Now

	names   *owners  // names of users and groups; kept between verbs
	earlier *earlier // the earlier runs of this verb; nil unless it changes files
}

// at returns the path on the host of an operand, or of a path below one.
func (e *Env) at(name string) string {
	switch {
	case e.Dir == "" || strings.HasPrefix(name, "/"):
		return name
	case name == "" || name == ".":
		return e.Dir
	}
	return strings.TrimRight(e.Dir, "/") + "/" + name
}

func (e *Env) now() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now()
}

// usage returns an error in the options or operands of a verb that has done nothing.
func usage(format string, args ...any) error {
	return &ui.UsageError{Err: fmt.Errorf(format, args...)}
}
