package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/usftp/usftp/dial"
)

// A terminal is the user's terminal, independent of the standard streams.
type terminal struct{ in, out *os.File }

func (t terminal) close() {
	t.in.Close()
	if t.out != t.in {
		t.out.Close()
	}
}

// Prompter returns a function that asks the user, or nil if nobody can be asked. Questions go to
// the terminal or to SSH_ASKPASS, and never to standard input, which may be the file to copy.
func (a *App) Prompter(batch bool) dial.Prompter {
	if batch {
		return nil
	}
	program, first := askpass()
	if program == "" || !first {
		if tty, err := openTerminal(); err == nil {
			tty.close()
			return dial.PrompterFunc(a.Prompt)
		}
	}
	if program == "" {
		return nil
	}
	return promptBy(program)
}

func (a *App) Prompt(ctx context.Context, p dial.Prompt) (string, error) {
	tty, err := openTerminal()
	if err != nil {
		return "", errors.New("cannot open the terminal")
	}
	question := printableLines(p.Text)
	defer a.Console.ask(question)()
	if p.Echo {
		defer againAfterStop(func() { io.WriteString(tty.out, question) })()
		io.WriteString(tty.out, question)
		return tty.await(ctx, func() (string, error) { return ReadLine(tty.in) })
	}
	// Fd makes the file's reads block, as readHidden needs.
	fd := int(tty.in.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		tty.close()
		return "", fmt.Errorf("cannot turn off echo: %w", err)
	}
	// A shell that had the terminal in between turned the echo on.
	answered := againAfterStop(func() {
		echoOff(fd)
		io.WriteString(tty.out, question)
	})
	restored := a.RestoreAtSignal(func() {
		answered()
		term.Restore(fd, state)
		io.WriteString(tty.out, "\n")
	})
	// Before the question: anything typed as soon as it appears must not be shown.
	if err := echoOff(fd); err != nil {
		restored()
		tty.close()
		return "", fmt.Errorf("cannot turn off echo: %w", err)
	}
	io.WriteString(tty.out, question)
	return tty.await(ctx, func() (string, error) {
		defer restored()
		return readHidden(tty.in)
	})
}

// againAfterStop asks again each time the program continues after Ctrl-Z, until answered is called.
func againAfterStop(ask func()) (answered func()) {
	continued, stop := continuations()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-continued:
				ask()
			}
		}
	}()
	return func() {
		stop()
		close(quit)
		<-done
	}
}

// await waits for the answer or for ctx, and closes the terminal after the answer.
func (t terminal) await(ctx context.Context, read func() (string, error)) (string, error) {
	answer, err := Await(ctx, func() (string, error) {
		defer t.close()
		return read()
	})
	if errors.Is(err, io.EOF) {
		return "", errors.New("no answer")
	}
	return answer, err
}

func ReadLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil && line == "" {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// Banner shows a server's message before the login.
func (a *App) Banner(_, text string) {
	fmt.Fprintln(a.Console, printableLines(strings.TrimRight(text, "\r\n")))
}
