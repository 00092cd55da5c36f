package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/usftp/usftp/internal/ui"
)

// localTilde returns the local name that a word stands for, with a leading ~ replaced by the home
// directory.
func (s *shell) localTilde(w word) string {
	name := w.name()
	if w.pattern == "~" || strings.HasPrefix(w.pattern, "~/") {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, strings.TrimPrefix(name, "~"))
		}
	}
	return name
}

func (s *shell) lcd(_ context.Context, r *request) error {
	dir := "~"
	if len(r.args) == 1 && r.args[0].text == "-" {
		if dir = s.localWas; dir == "" {
			return errNoPrevious
		}
	} else if len(r.args) == 1 && r.args[0].text != "" {
		names, err := s.localNames(r.args[0])
		if err != nil {
			return err
		}
		if len(names) > 1 {
			return fmt.Errorf("%s matches %d names", r.args[0].text, len(names))
		}
		dir = names[0]
	}
	if dir == "~" {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		dir = home
	}
	was, _ := os.Getwd()
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("cannot change the local directory to %s: %s", dir, ui.ReasonOf(err))
	}
	s.localWas = was
	return nil
}

func (s *shell) lpwd(context.Context, *request) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.app.Out, "Local working directory: %s\n", ui.Printable(dir))
	return err
}

func (s *shell) lmkdir(_ context.Context, r *request) error {
	var failed error
	for _, w := range r.args {
		if err := os.Mkdir(s.localTilde(w), 0o777); err != nil {
			failed = cmp.Or(failed, s.report(fmt.Errorf(
				"cannot make the local directory %s: %s", w.text, ui.ReasonOf(err))))
		}
	}
	return failed
}

func (s *shell) lumask(_ context.Context, r *request) error {
	mask, err := strconv.ParseUint(r.args[0].text, 8, 32)
	if err != nil || mask > 0o777 {
		return fmt.Errorf("%q is not a umask: must be an octal number up to 777", r.args[0].text)
	}
	if err := ui.SetUmask(uint32(mask)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.app.Out, "Local umask: %03o\n", mask)
	return err
}

func (s *shell) lls(ctx context.Context, r *request) error {
	list := "ls"
	if runtime.GOOS == "windows" {
		list = "dir"
	}
	return s.local(ctx, strings.TrimSpace(list+" "+r.rest))
}

func (s *shell) escape(ctx context.Context, r *request) error { return s.local(ctx, r.rest) }

// local runs a command in the user's shell, or the shell itself.
func (s *shell) local(ctx context.Context, command string) error {
	return s.child(ctx, commandLine(command))
}

// child runs a program that has the terminal to itself. Ctrl-C then goes to the program.
func (s *shell) child(ctx context.Context, cmd *exec.Cmd) error {
	if s.stdin && cmd.Stdin == nil {
		cmd.Stdin = s.app.Stdin
	}
	cmd.Stdout, cmd.Stderr = s.app.Stdout, os.Stderr
	s.interrupts.ignore(true)
	defer s.interrupts.ignore(false)
	err := cmd.Run()
	exit, ended := errors.AsType[*exec.ExitError](err)
	if ended && ui.ByCtrlC(exit) { // Ctrl-C was for the program
		s.interrupts.await(ctx)
		fmt.Fprintln(os.Stderr)
		return reported(err)
	}
	if err = s.app.AfterProgram(ctx, err); ended && ctx.Err() == nil {
		return fmt.Errorf("%s ended with %w", filepath.Base(cmd.Path), exit)
	}
	return err
}

// program runs a program for find -exec. Ctrl-C is meant for find too.
func (s *shell) program(ctx context.Context, argv []string) error {
	err := s.child(ctx, exec.Command(argv[0], argv[1:]...))
	if errors.As(err, new(*reportedError)) {
		return reported(context.Canceled)
	}
	return err
}
