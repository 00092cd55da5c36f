package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp/internal/cli/lineedit"
	"github.com/usftp/usftp/internal/cli/opt"
	"github.com/usftp/usftp/internal/cli/ui"
)

// A terminal is a person who types commands.
type terminal struct {
	shell  *Shell
	screen *os.File
	editor *lineedit.Editor
}

func newTerminal(s *Shell) *terminal {
	t := &terminal{shell: s, screen: s.app.Stdout}
	if !ui.IsTerminal(t.screen) { // what is printed goes to a file; the person sits here
		t.screen = os.Stderr
	}
	t.editor = lineedit.New(s.app.Stdin, t.screen, func() int { return ui.Width(t.screen) })
	if state := opt.StateDirectory(); state != "" {
		history, err := lineedit.Open(filepath.Join(state, "shell_history"))
		if err != nil {
			s.app.Console.Say("the history cannot be used: " + ui.ReasonOf(err))
		}
		t.editor.History = history
	}
	t.editor.Complete = s.complete
	s.listings.arrived = t.editor.Wake
	s.ask = t.ask
	return t
}

func (t *terminal) close() {}

func (t *terminal) loop(ctx context.Context, s *Shell) error {
	s.app.Signals.OnInterrupt(s.interrupts.interrupted)
	if !s.flags.Quiet {
		fmt.Fprintf(t.screen, "Connected to %s. Try help, or Tab.\n",
			ui.Printable(s.session.target.UserHost()))
	}
	for {
		text, err := t.readLine(ctx)
		switch {
		case errors.Is(err, lineedit.ErrInterrupted):
			continue
		case isEnd(err):
			return nil
		case err != nil:
			return err
		}
		l, err := parseLine(text, s.quoting)
		ends := false
		if err == nil {
			ends, err = t.run(ctx, l)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t.show(err)
		if ends || errors.As(err, new(*ui.OutputError)) {
			return err
		}
	}
}

// run runs a command that Ctrl-C ends.
func (t *terminal) run(ctx context.Context, l line) (ends bool, err error) {
	ctx, done := t.shell.interrupts.begin(ctx)
	defer done()
	return t.shell.run(ctx, l)
}

// show shows an error. Whoever has pressed Ctrl-C knows why the command has ended; what comes next
// must not stand behind the ^C that the terminal shows.
func (t *terminal) show(err error) {
	var told *toldError
	if errors.As(err, new(*ui.Interruption)) && !errors.As(err, &told) {
		fmt.Fprintln(t.screen)
		return
	}
	t.shell.show(err)
}

// ask asks a question that is answered with yes or no, by a line of its own.
func (t *terminal) ask(ctx context.Context, question string) (yes bool, err error) {
	restore, err := t.shell.app.Raw(t.shell.app.Stdin)
	if err != nil {
		return false, err
	}
	defer restore()
	editor := lineedit.New(t.shell.app.Stdin, t.screen, t.editor.Width)
	answer, err := editor.ReadLine(ctx, ui.Printable(question)+" ")
	switch {
	case errors.Is(err, lineedit.ErrInterrupted):
		return false, told(err)
	case isEnd(err):
		return false, nil
	}
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y"), err
}

// readLine reads a line with the terminal raw.
func (t *terminal) readLine(ctx context.Context) (string, error) {
	in := t.shell.app.Stdin
	restore, err := t.shell.app.Raw(in)
	if err != nil {
		return "", err
	}
	defer func() { restore() }()
	t.editor.Suspend = nil
	if ui.SuspendSelf != nil {
		t.editor.Suspend = func() {
			restore()
			ui.SuspendSelf()
			if again, err := t.shell.app.Raw(in); err == nil {
				restore = again
			}
		}
	}
	return t.editor.ReadLine(ctx, t.prompt())
}

// prompt shows where one is.
func (t *terminal) prompt() string {
	session := t.shell.session
	dir := session.dir
	if dir == session.home {
		dir = "~"
	} else if len(dir) > 30 {
		dir = "…/" + path.Base(dir)
	}
	return ui.Printable(session.target.UserHost()+":"+dir) + "> "
}
