// Package cli is the command usftp: flags, terminal, signals and exit codes around package
// transfer.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Main runs the command with its arguments (without the program's name) and returns the exit code.
func Main(args []string) int {
	tuneMemory()
	tuneProcessors()
	a := &app{stdin: os.Stdin, stdout: os.Stdout, console: newConsole(os.Stderr)}
	a.out = &output{file: a.stdout}
	ctx, stop := a.catchSignals(context.Background())
	defer stop()
	return a.run(ctx, asSftpServer(os.Args[0], args))
}

// An app is one run of the command.
type app struct {
	stdin   *os.File
	stdout  *os.File
	out     *output  // stdout, for what is printed
	console *console // standard error
	restore restorer // puts the terminal back
	signals signalPlan
	args    []string // as they were typed
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.command()
	a.args = args
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	code := a.exitCode(ctx, err)
	if errors.Is(err, errServed) {
		return exitOK
	}
	lost := a.out.close()
	if lost != nil && !readerGone(lost) && !errors.As(err, new(*outputError)) {
		a.console.say(lost.Error())
	}
	if lost != nil && (code == exitOK || readerGone(lost)) {
		return codeOf(lost)
	}
	return code
}

// exitCode says what is still to be said of a command's error and returns the exit code.
func (a *app) exitCode(ctx context.Context, err error) int {
	if signal := interrupted(ctx); signal != nil {
		return signal.code()
	}
	var failed *exitError
	if errors.As(err, &failed) { // all has been said
		return failed.code
	}
	code := codeOf(err)
	if err != nil && code != exitOutputGone {
		a.console.say(err.Error())
		var usage *usageError
		if errors.As(err, &usage) {
			a.console.say(fmt.Sprintf("`%s --help` tells how it is used", usage.command))
		}
	}
	return code
}

// An exitError ends the program with a code, after the reasons have been told.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// command is the whole command line: what is parsed, shown as help, completed, and printed as the
// man page.
func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "usftp",
		Short:         "copy files over SSH, with SFTP, at the speed of the wire",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &usageError{"usftp", fmt.Errorf("there is no command %q; `usftp cp` copies files", args[0])}
			} else if len(args) > 0 {
				return &usageError{"usftp", fmt.Errorf("there is no command %q", args[0])}
			}
			return nil
		},
	}
	root.SetOut(a.out)
	root.SetErr(a.console)
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{cmd.CommandPath(), flagError(err)}
	})
	// Not cobra's own, which is a template: with text/template linked in, the linker keeps all
	// methods, for 4.7 MB.
	version := root.Flags().Bool("version", false, "say which version this is")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return printVersion(cmd)
		}
		return cmd.Help()
	}
	cobra.EnableCommandSorting = false // cp comes first
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.AddCommand(a.copyCommand(), a.checkCommand(), a.serveCommand(), a.hashPasswordCommand(),
		a.demoCommand(), a.versionCommand(), completionCommand(), a.manCommand(root), a.healthCommand())
	return root
}

// noArgs refuses operands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{cmd.CommandPath(),
			fmt.Errorf("%s takes no argument, and was given %q", cmd.Name(), args[0])}
	}
	return nil
}
