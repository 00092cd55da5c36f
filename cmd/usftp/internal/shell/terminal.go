package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/peterh/liner"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/ui"
)

// A terminal is a source of commands typed by a user.
type terminal struct {
	shell   *shell
	editor  *liner.State
	history *history

	// The editor's terminal mode is set only while a line is typed. Programs that run in between,
	// and password prompts, find the terminal as it was.
	editing, before liner.ModeApplier
}

func newTerminal(s *shell) (*terminal, error) {
	before, err := liner.TerminalMode()
	if err != nil {
		return nil, fmt.Errorf("cannot use the terminal: %w", err)
	}
	s.app.EnableEscapes()
	t := &terminal{shell: s, before: before, editor: liner.NewLiner(), history: new(history)}
	if liner.TerminalSupported() { // liner makes Ctrl-C a key only once it has shown the prompt
		err = ui.SignalsOff(s.app.Stdin)
	}
	if err == nil {
		t.editing, err = liner.TerminalMode()
	}
	before.ApplyMode()
	if err != nil {
		return nil, fmt.Errorf("cannot use the terminal: %w", err)
	}
	t.editor.SetCtrlCAborts(true)
	t.editor.SetTabCompletionStyle(liner.TabPrints)
	t.editor.SetWordCompleter(s.complete)
	if file := opt.StatePath("shell_history"); file != "" {
		t.history, err = openHistory(file, t.editor.AppendHistory)
		if err != nil {
			s.app.Console.Say("the history cannot be used: " + ui.ReasonOf(err))
		}
	}
	s.ask, s.listings = t.ask, newListings(s.session.client)
	return t, nil
}

func (t *terminal) close() { t.editor.Close() }

func (t *terminal) loop(ctx context.Context, s *shell) error {
	s.app.Signals.OnInterrupt(s.interrupts.interrupted)
	if !s.flags.Quiet {
		fmt.Fprintf(s.app.Stdout, "Connected to %s. Try help, or Tab.\n",
			ui.Printable(s.session.target.UserHost()))
	}
	for {
		text, err := t.readLine(ctx, t.prompt())
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(s.app.Stdout)
			return nil
		case err != nil:
			return err
		}
		if t.history.add(text) {
			t.editor.AppendHistory(text)
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

// run runs a command that Ctrl-C can interrupt.
func (t *terminal) run(ctx context.Context, l line) (ends bool, err error) {
	ctx, done := t.shell.interrupts.begin(ctx)
	defer done()
	return t.shell.run(ctx, l)
}

// show shows an error. A user who has pressed Ctrl-C knows why the command ended, but the terminal
// shows ^C, and the next output needs a new line.
func (t *terminal) show(err error) {
	if errors.As(err, new(*ui.Interruption)) && !errors.As(err, new(*reportedError)) {
		fmt.Fprintln(t.shell.app.Stdout)
		return
	}
	t.shell.show(err)
}

// ask asks a yes-or-no question, on its own line.
func (t *terminal) ask(ctx context.Context, question string) (yes bool, err error) {
	// While a line is typed, Ctrl-C is a key. A SIGINT from elsewhere would leave the editor
	// behind, and it would read the next line.
	t.shell.interrupts.ignore(true)
	defer t.shell.interrupts.ignore(false)
	prompt := ui.Printable(question) + " "
	if runewidth.StringWidth(prompt) > t.columns()/2 {
		fmt.Fprintln(t.shell.app.Stdout, ui.Printable(question))
		prompt = "[y/N] "
	}
	answer, err := t.readLine(ctx, prompt)
	switch {
	case errors.Is(err, liner.ErrPromptAborted):
		return false, reported(err)
	case errors.Is(err, io.EOF):
		fmt.Fprintln(t.shell.app.Stdout)
		return false, nil
	}
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y"), err
}

// readLine reads a line. The error is io.EOF, liner.ErrPromptAborted for Ctrl-C, or the cause of
// ctx.
func (t *terminal) readLine(ctx context.Context, prompt string) (string, error) {
	if ctx.Err() != nil { // the editor may still be reading for the last caller
		return "", context.Cause(ctx)
	}
	t.editing.ApplyMode()
	restore := t.shell.app.RestoreAtSignal(func() { t.before.ApplyMode() })
	defer restore()
	// The editor cannot be stopped, but if ctx ends so does the program.
	return ui.Await(ctx, func() (string, error) { return t.editor.Prompt(prompt) })
}

func (t *terminal) columns() int { return ui.Width(t.shell.app.Stdout) }

// prompt shows the current directory, in at most half a line, as the editor needs room.
func (t *terminal) prompt() string {
	session := t.shell.session
	dir := session.dir
	if dir == session.home {
		dir = "~"
	} else if len(dir) > 30 {
		dir = ".../" + path.Base(dir)
	}
	prompt := ui.Printable(session.target.UserHost()+":"+dir) + "> "
	if over := runewidth.StringWidth(prompt) - t.columns()/2; over > 0 {
		prompt = runewidth.TruncateLeft(prompt, over+3, "...")
	}
	return prompt
}
