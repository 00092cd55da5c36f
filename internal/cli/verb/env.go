// Package verb has the everyday verbs on one host: ls, cat, rm, find and the rest. Each is a
// function over an [Env], which says where it runs and where its output goes:
//
//	env := &verb.Env{Client: client, Host: "user@host", Out: os.Stdout, Say: say}
//	err := verb.List(ctx, env, verb.ListOptions{Long: true}, []string{"dir", "file"})
//
// Operands are paths on the host, already expanded: a verb knows no patterns and no "host:".
// Relative ones start in Env.Dir, or where the login has put us if that is empty. They are printed
// as they were given.
//
// A verb tells by Say what fails, one line each, and goes on with the rest. It then returns an
// [*ui.ExitError] with the exit code of the tool whose name it carries: all has been said. Any other
// error has not been said and has ended the verb: the connection is lost (errors.Is net.ErrClosed),
// the context has ended, or the output cannot be written. A *UsageError is a mistake in the options.
//
// Long trees and long links: all recursive verbs use one walker (walk.go), which lists directories
// ahead of the visit, and one pipeline (pipeline.go), which starts changes without waiting for them.
// Both are bounded in memory, and output is in order.
package verb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/cli/ui"
)

// An Env is where a verb runs. Only Client, Out and Say must be set. One verb at a time uses it.
type Env struct {
	Client *usftp.Client
	Host   string // for messages and JSON: "user@host"
	Dir    string // where relative paths start; absolute, or "" for the login's directory
	Prefix string // printed in front of each path, such as "host:" if there are several hosts

	Out io.Writer         // what the verb prints; it is buffered here
	Say func(line string) // takes one line about a failure, fit for a terminal

	// Ask asks the person before something is removed or replaced. Nil means that nobody answers,
	// which is a no.
	Ask func(ctx context.Context, question string) (yes bool, err error)

	Terminal bool // Out is a terminal: columns, colours, and names made printable
	Width    int  // of the terminal; 0 means 80
	Colors   *Colors
	JSON     bool // print one JSON object a line instead
	Verbose  bool // rm, mv, mkdir and the like print what they have done, as with -v

	Now func() time.Time // nil means time.Now

	names *owners // of users and groups; kept between verbs
}

// at returns the path on the host of an operand or of a path that begins with one.
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

// job is one verb at work. It keeps the exit code, and the error that ends the verb.
type job struct {
	*Env
	verb   string // "rm"
	ctx    context.Context
	client *usftp.Client // which ends with ctx
	out    *bufio.Writer
	code   int
	err    error // what ends the verb; nothing more is to be done
}

const outputBuffer = 64 << 10

// begin starts a verb.
func (e *Env) begin(ctx context.Context, verb string) *job {
	if e.names == nil {
		e.names = newOwners()
	}
	return &job{Env: e, verb: verb, ctx: ctx, client: e.Client.WithContext(ctx),
		out: bufio.NewWriterSize(e.Out, outputBuffer)}
}

// end is what the verb returns.
func (j *job) end() error {
	if err := j.out.Flush(); err != nil && j.err == nil {
		j.err = err
	}
	switch {
	case j.err != nil:
		return j.err
	case j.ctx.Err() != nil:
		return context.Cause(j.ctx)
	case j.code != 0:
		return &ui.ExitError{Code: j.code}
	}
	return nil
}

// over reports whether nothing more is to be done.
func (j *job) over() bool { return j.err != nil || j.ctx.Err() != nil }

// fail says that something could not be done to a file, and keeps the exit code 1. If the
// connection or the context has ended, the verb ends instead.
func (j *job) fail(what, name string, err error) { j.failCode(1, what, name, err) }

func (j *job) failCode(code int, what, name string, err error) {
	switch {
	case err == nil || j.err != nil:
	case j.ctx.Err() != nil:
		j.err = context.Cause(j.ctx)
	case errors.Is(err, net.ErrClosed):
		j.err = err
	default:
		j.code = max(j.code, code)
		reason := reasonOf(err)
		if j.JSON {
			j.print(errorLine{header{1, "error", j.Host}, name, reason})
		}
		j.say(fmt.Sprintf("cannot %s %s: %s", what, j.title(name), reason))
	}
}

// say tells a person something, after what was printed before.
func (j *job) say(line string) {
	j.flush()
	j.Say(ui.Printable(line))
}

// flush writes what was printed. Whoever reads it may have gone.
func (j *job) flush() {
	if err := j.out.Flush(); err != nil && j.err == nil {
		j.err = err
	}
}

// title names a file in a message.
func (j *job) title(name string) string {
	if j.Host == "" {
		return name
	}
	return j.Host + ":" + name
}

// shown is a path or name as it is printed: as it is, but fit for a terminal if one shows it.
func (j *job) shown(name string) string {
	if j.Terminal {
		return ui.Printable(name)
	}
	return name
}

// line prints one line.
func (j *job) line(parts ...string) {
	for _, part := range parts {
		j.out.WriteString(part)
	}
	if err := j.out.WriteByte('\n'); err != nil && j.err == nil {
		j.err = err
	}
}

// done says that something was done, for -v and --json.
func (j *job) done(kind, name, text string) {
	if j.JSON {
		j.print(doneLine{header{1, kind, j.Host}, name, ""})
	} else if j.Verbose {
		j.line(j.shown(text))
	}
}

// reasonOf is why something failed, in few words. The server's own come where they say more than
// the code does.
func reasonOf(err error) string {
	var status *usftp.StatusError
	message := ""
	if errors.As(err, &status) {
		message = status.Message
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file or directory"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case errors.Is(err, fs.ErrExist):
		return "file exists"
	case errors.Is(err, errors.ErrUnsupported):
		return "the server does not support this"
	case message != "" && !strings.EqualFold(message, "failure"):
		return message
	case status != nil:
		return "the server refuses without a reason"
	}
	return ui.ReasonOf(err)
}

// A UsageError is a mistake in the options or operands of a verb; nothing was done.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// printable is text of a server's that must stay on one line.
func printable(text string) string { return ui.Printable(text) }
