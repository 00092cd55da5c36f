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
// For large trees and long links, all recursive verbs share one walker (walk.go), which lists
// directories ahead of the visit, and one pipeline (pipeline.go), which starts changes without
// waiting for them. Both use bounded memory, and output is in order.
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

// An Env is where a verb runs. Only Client, Out and Say must be set. Only one verb at a time may
// use it.
type Env struct {
	Client *usftp.Client
	Host   string // for messages and JSON: "user@host"
	Dir    string // where relative paths start; absolute, or "" for the login's directory
	Prefix string // printed in front of each path, such as "host:" if there are several hosts

	Out io.Writer         // the verb's output, which it buffers
	Say func(line string) // takes one line about a failure, safe for a terminal

	// Ask asks the user before something is removed or replaced. Nil means that nobody can be
	// asked, which counts as no.
	Ask func(ctx context.Context, question string) (yes bool, err error)

	// Renew replaces the connection, which was lost with err; progress says that something was
	// printed since the last time. It returns nil if there is none. Nil means that connections are
	// not replaced.
	Renew func(err error, progress bool) *usftp.Client
	Again bool // the verb is run again, since a connection was lost

	Terminal bool // Out is a terminal: use columns, colours, and printable names
	Width    int  // of the terminal; 0 means 80
	Colors   *Colors
	JSON     bool // print JSON objects instead, one per line
	Verbose  bool // -v: rm, mv, mkdir and the like print what they have done

	Now func() time.Time // nil means time.Now

	names   *owners  // of users and groups; kept between verbs
	earlier *earlier // the runs of this verb before; nil unless it changes files
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

// job is one run of a verb. It keeps the exit code, and the error that ends the verb.
type job struct {
	*Env
	verb   string // "rm"
	ctx    context.Context
	client *usftp.Client // ends with ctx
	out    *bufio.Writer
	code   int
	err    error // what ends the verb
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

// end returns the verb's result.
func (j *job) end() error {
	if err := j.out.Flush(); err != nil && j.err == nil {
		j.err = err
	}
	switch {
	case j.err != nil && !(errors.Is(j.err, errChanged) && j.ctx.Err() != nil):
		return j.err
	case j.ctx.Err() != nil: // which may be why the output differs
		return context.Cause(j.ctx)
	case j.code != 0:
		return &ui.ExitError{Code: j.code}
	}
	return nil
}

// over reports whether the verb should stop.
func (j *job) over() bool { return j.err != nil || j.ctx.Err() != nil }

// stopped returns why the verb is over.
func (j *job) stopped() error {
	if j.err != nil {
		return j.err
	}
	return context.Cause(j.ctx)
}

// fail reports that something could not be done to a file, and keeps exit code 1. If the connection
// or the context has ended, the verb ends instead.
func (j *job) fail(what, name string, err error) { j.failCode(1, what, name, err) }

func (j *job) failCode(code int, what, name string, err error) {
	j.failed(code, what+" "+j.title(name), name, err)
}

// failed is failCode for a failure that concerns more than one file.
func (j *job) failed(code int, what, name string, err error) {
	switch {
	case err == nil || j.err != nil:
	case j.ctx.Err() != nil:
		j.err = context.Cause(j.ctx)
	case errors.Is(err, net.ErrClosed):
		j.err = err
	default:
		j.code = max(j.code, code)
		reason := reasonOf(err)
		if j.JSON && !j.earlier.has("error", name+"\x00"+reason) {
			j.print(errorLine{header{1, "error", j.Host}, name, reason})
		}
		j.say(fmt.Sprintf("cannot %s: %s", what, reason))
	}
}

// say reports a line, after everything printed so far.
func (j *job) say(line string) {
	j.flush()
	j.Say(ui.Printable(line))
}

// flush writes what was printed. The reader may have gone.
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

// shown returns a path or name for printing, made safe if it goes to a terminal.
func (j *job) shown(name string) string {
	if j.Terminal {
		return ui.Printable(name)
	}
	return name
}

// quoted returns a path as -v and the like print it.
func (j *job) quoted(name string) string { return quoted(j.Prefix + name) }

// line prints one line.
func (j *job) line(parts ...string) {
	for _, part := range parts {
		j.out.WriteString(part)
	}
	if err := j.out.WriteByte('\n'); err != nil && j.err == nil {
		j.err = err
	}
}

// done reports that something was done, for --json and -v. Names in the text for -v are quoted.
func (j *job) done(kind, name, text string) { j.did(kind, name, "", text) }

// did is done for an operation on two names.
func (j *job) did(kind, name, target, text string) {
	switch {
	case j.earlier.has(kind, name):
	case j.JSON:
		j.print(doneLine{header{1, kind, j.Host}, name, target})
	case j.Verbose:
		j.line(text)
	}
}

// Reasons that version 3 has no status for; verbs find them out once something has failed.
var (
	errIsDirectory  = errors.New("is a directory")
	errNotDirectory = errors.New("not a directory")
	errNotEmpty     = errors.New("directory not empty")
)

// whyMissing returns why a name could not be found or made. Servers also answer "no such file" if
// a parent is not a directory.
func (j *job) whyMissing(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := prefixes(name)
	above = above[:len(above)-1]
	if file := strings.TrimRight(name, "/"); file != name && file != "" {
		above = append(above, file)
	}
	var ops pipeline
	for _, parent := range above {
		pending := j.client.Async().Stat(j.at(parent))
		ops.add(func() {
			if info, statErr := pending.Wait(); statErr == nil && !info.IsDir() {
				err = errNotDirectory
			}
		})
	}
	ops.drain()
	return err
}

// prefixes returns the directories above a path, as it names them, the highest first, and the path.
func prefixes(name string) (list []string) {
	for i := 1; i < len(strings.TrimRight(name, "/")); i++ {
		if name[i] == '/' && name[i-1] != '/' {
			list = append(list, name[:i])
		}
	}
	return append(list, name)
}

// reasonOf describes why something failed in a few words, using the server's if they say more than
// the status code does.
func reasonOf(err error) string {
	var status *usftp.StatusError
	message := ""
	if errors.As(err, &status) {
		message = status.Message
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file or directory"
	case errors.Is(err, fs.ErrPermission) && status != nil:
		return status.Error()
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case errors.Is(err, fs.ErrExist):
		return "file exists"
	case errors.Is(err, errors.ErrUnsupported):
		return "the server does not support this"
	case errors.Is(err, usftp.ErrSSHFxBadMessage): // OpenSSH's answer to EINVAL and ENAMETOOLONG
		return "the server does not accept this name or value"
	case message != "" && !strings.EqualFold(message, "failure"):
		return message
	case status != nil:
		return "the server refuses without a reason"
	}
	return ui.ReasonOf(err)
}

// usage returns an error about the options or operands of a verb; nothing was done.
func usage(format string, args ...any) error {
	return &ui.UsageError{Err: fmt.Errorf(format, args...)}
}
