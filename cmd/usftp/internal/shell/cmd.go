// Package shell is the verb shell: a session on a host, with the commands of sftp and more.
package shell

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/ui"
)

type flags struct {
	opt.Connect
	opt.Tree
	opt.Report
	batch                              string
	noisy                              bool
	resume, fsync, preserve, recursive bool
}

func (c *flags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVarP(&c.batch, "batch-file", "b", "",
		"run the commands in `file` (- for standard input), "+
			"never ask, and stop at the first that fails")
	f.BoolVarP(&c.noisy, "noisy", "N", false, "with -b: print messages too")
	f.BoolVarP(&c.resume, "resume", "a", false, "get and put continue interrupted copies")
	f.BoolVarP(&c.fsync, "fsync", "f", false, "get and put flush data to the target's disk")
	f.BoolVarP(&c.preserve, "preserve", "p", false, "get and put keep times and permissions")
	f.BoolVarP(&c.recursive, "recursive", "r", false, "get and put copy directories too")
	c.Connect.RegisterSFTP(f)
	c.RegisterBounds(f)
	c.Report.Register(f)
	f.Lookup("json").Hidden = true // the output is for people, or for programs written for sftp
}

// Command returns the verb shell.
func Command(a *ui.App) *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:         "shell [flags] HOST[:DIR]",
		Short:       "work on a host interactively, like sftp, or run a batch of commands",
		Long:        long + "\n\n" + commandList(),
		Example:     examples,
		Annotations: map[string]string{opt.OwnPage: exits},
		RunE: func(cmd *cobra.Command, args []string) error {
			set := cmd.Flags().Changed
			err := flags.Connect.Check(set)
			if err == nil && set("batch-file") && flags.batch == "" {
				err = errors.New("--batch-file needs a file, or - for standard input")
			}
			if err == nil {
				err = flags.Tree.Check()
			}
			var target dial.Target
			var to string
			if err == nil {
				target, to, err = parseTarget(args, set("server"))
			}
			if err == nil && flags.JSON {
				err = errors.New("--json is not for sessions; use usftp cp and the other commands")
			}
			if err != nil {
				return &ui.UsageError{Err: err}
			}
			if flags.batch != "" {
				cmd.Flags().Set("batch", "true")
				flags.NoProgress = true
				flags.Quiet = !flags.noisy
			}
			return run(cmd.Context(), a, &flags, target, to)
		},
	}
	flags.register(cmd.Flags())
	cmd.ValidArgsFunction = complete.Places{Connect: &flags.Connect, Directories: true}.Operands
	return cmd
}

// parseTarget reads the operands: the host, unless a local server is run, and the local name of a
// file to copy, "" if there is none.
func parseTarget(args []string, server bool) (target dial.Target, to string, err error) {
	switch {
	case len(args) == 0 && server:
		return dial.Target{Host: "localhost"}, "", nil
	case len(args) == 0:
		return target, "", errors.New("missing operand: shell needs a host")
	case len(args) == 2:
		to = args[1]
	case len(args) > 2:
		return target, "",
			errors.New("too many operands: shell takes HOST[:DIR], or HOST:FILE and a local name")
	}
	target, err = dial.ParseHost(args[0])
	return target, to, err
}

func run(ctx context.Context, a *ui.App, f *flags, target dial.Target, to string) error {
	s := newShell(a, f, target)
	defer s.session.close()
	source, err := s.source(ctx)
	if err != nil {
		return err
	}
	defer source.close()
	if done, err := s.start(ctx, target.Path, to); done || err != nil {
		s.show(err)
		if err != nil {
			return &ui.ExitError{Code: ui.CodeOf(err)}
		}
		return nil
	}
	return source.loop(ctx, s)
}

// A source supplies commands.
type source interface {
	loop(ctx context.Context, s *shell) error
	close()
}

// source returns the source to use: a batch file, a person at a terminal, or standard input.
func (s *shell) source(ctx context.Context) (source, error) {
	switch {
	case s.flags.batch != "" && s.flags.batch != "-":
		f, err := endpoint.Local{}.Open(ctx, s.flags.batch, 0)
		if err != nil {
			return nil, fmt.Errorf("cannot read the batch %s: %s", s.flags.batch, ui.ReasonOf(err))
		}
		s.quoting, s.stdin = sftpQuoting, true
		return &batch{file: f, in: f, aborts: true}, nil
	case interactive(s.app, s.flags):
		s.stdin = true
		return newTerminal(s)
	}
	s.quoting = sftpQuoting
	return &batch{aborts: s.flags.batch != ""}, nil
}

// interactive reports whether a person types the commands and sees their output.
func interactive(a *ui.App, f *flags) bool {
	return f.batch == "" && ui.IsTerminal(a.Stdin) && ui.IsTerminal(a.Stdout)
}
