package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/ui"
)

// A batch is commands from a file, or from standard input if that is not a terminal.
type batch struct {
	file   io.Closer // nil for standard input
	in     io.Reader
	aborts bool // at the first failure, as with sftp -b; else failures are ignored
}

func (b *batch) close() {
	if b.file != nil {
		b.file.Close()
	}
}

// maxLine limits the bytes of a command.
const maxLine = 1 << 20

func (b *batch) loop(ctx context.Context, s *shell) error {
	if b.in == nil {
		b.in = s.app.StandardInput(ctx)
	}
	lines := bufio.NewScanner(b.in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if ctx.Err() != nil { // the line may be half of one
			return context.Cause(ctx)
		}
		text := lines.Text()
		l, err := parseLine(text, s.quoting)
		if !l.silent {
			shown := ui.Printable(strings.TrimRight(text, "\r"))
			if _, err := fmt.Fprintf(s.app.Out, "sftp> %s\n", shown); err != nil {
				return err
			}
		}
		ends := false
		if err == nil {
			ends, err = s.run(ctx, l)
		}
		s.show(err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, new(*ui.OutputError)), errors.As(err, new(*dial.Error)):
			// the rest cannot work either
			return &ui.ExitError{Code: ui.CodeOf(err)}
		case err != nil && b.aborts && !l.ignoreErrors && !l.forgiven():
			return &ui.ExitError{Code: codeOf(err)}
		case ends:
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return lines.Err()
}

// codeOf returns the exit code of a batch that a command's failure ends: whether the connection was
// lost for good, or it is something else.
func codeOf(err error) int {
	exit, ok := errors.AsType[*ui.ExitError](err)
	if ok && exit.Code == ui.ExitNoHost || ui.CodeOf(err) == ui.ExitNoHost {
		return ui.ExitNoHost
	}
	return ui.ExitFailed
}

// forgiven reports whether the command's failure does not end a batch: sftp ignores the exit status
// of programs it runs locally.
func (l *line) forgiven() bool { return l.command != nil && l.command.raw }
