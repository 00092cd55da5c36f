package verb

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/ui"
)

// job is one run of a verb. It keeps the exit code, and the error that ends the verb.
type job struct {
	*Env
	ctx    context.Context
	client *usftp.Client // ends with ctx
	out    *bufio.Writer
	code   int
	err    error // ends the verb
}

const outputBuffer = 64 << 10

// begin starts a verb.
func (e *Env) begin(ctx context.Context) *job {
	if e.names == nil {
		e.names = newOwners()
	}
	return &job{Env: e, ctx: ctx, client: e.Client.WithContext(ctx),
		out: bufio.NewWriterSize(e.Out, outputBuffer)}
}

// end writes the buffered output, and returns the verb's result.
func (j *job) end() error {
	j.flush()
	switch {
	case j.err != nil && !(errors.Is(j.err, errChanged) && j.ctx.Err() != nil):
		return j.err
	case j.ctx.Err() != nil: // this may be why the output differs
		return context.Cause(j.ctx)
	case j.code != 0:
		return &ui.ExitError{Code: j.code}
	}
	return nil
}

// over reports whether the verb should stop.
func (j *job) over() bool { return j.stopped() != nil }

// stop ends the verb with an error, unless err is nil or the verb has already ended.
func (j *job) stop(err error) {
	if j.err == nil {
		j.err = err
	}
}

// stopped returns why the verb is over, or nil.
func (j *job) stopped() error { return cmp.Or(j.err, context.Cause(j.ctx)) }

// fail reports that an action on a file failed, and keeps exit code 1. If the connection or the
// context has ended, the verb ends instead.
func (j *job) fail(what, name string, err error) { j.failed(what+" "+j.title(name), name, err) }

// failed works like fail for a failure that concerns more than one file.
func (j *job) failed(what, name string, err error) {
	switch {
	case err == nil || j.err != nil:
	case j.ctx.Err() != nil:
		j.err = context.Cause(j.ctx)
	case errors.Is(err, net.ErrClosed):
		j.err = err
	default:
		j.code = max(j.code, 1)
		reason := reasonOf(err)
		if j.JSON && !j.earlier.has("error", name+"\x00"+reason) {
			j.print(errorLine{j.header("error"), name, reason})
		}
		j.say(fmt.Sprintf("cannot %s: %s", what, reason))
	}
}

// say reports a line, after everything printed so far.
func (j *job) say(line string) {
	j.flush()
	j.Say(ui.Printable(line))
}

// flush writes the buffered output. The reader may have gone.
func (j *job) flush() { j.stop(j.out.Flush()) }

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
	j.stop(j.out.WriteByte('\n'))
}

// print prints one object of --json.
func (j *job) print(object any) { j.stop(ui.WriteJSON(j.out, object)) }

// done reports a completed action, for --json and -v. target is the other name of an operation on
// two. Names in the text for -v are quoted.
func (j *job) done(kind, name, target, text string) {
	switch {
	case j.earlier.has(kind, name):
	case j.JSON:
		j.print(doneLine{j.header(kind), name, target})
	case j.Verbose:
		j.line(text)
	}
}

// confirm asks the user about a file. If nobody can be asked the answer is no.
func (j *job) confirm(question, name string) bool {
	j.flush()
	if j.Ask == nil || j.over() {
		return false
	}
	yes, err := j.Ask(j.ctx, question+" "+j.title(name)+"?")
	j.stop(err)
	return yes
}
