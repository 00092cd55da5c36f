// Package cli is the command usftp: its verbs, help, completion, the man page and the version.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/check"
	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/cmd/usftp/internal/cp"
	"github.com/usftp/usftp/cmd/usftp/internal/demo"
	"github.com/usftp/usftp/cmd/usftp/internal/files"
	"github.com/usftp/usftp/cmd/usftp/internal/mount"
	"github.com/usftp/usftp/cmd/usftp/internal/serve"
	"github.com/usftp/usftp/cmd/usftp/internal/shell"
	"github.com/usftp/usftp/cmd/usftp/internal/sync"
	"github.com/usftp/usftp/cmd/usftp/internal/ui"
)

// Main runs the command with its arguments (without the program's name) and returns the exit code.
func Main(args []string) int {
	a := ui.NewApp()
	ctx, stop := a.CatchSignals(context.Background())
	defer stop()
	return execute(ctx, a, mount.AsHelper(os.Args[0], serve.AsSFTPServer(os.Args[0], args)))
}

func execute(ctx context.Context, a *ui.App, args []string) int {
	root := commandLine(a)
	a.Args = args
	root.SetArgs(sync.Habits(files.Historical(args)))
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(ctx, a, cmd, err)
	if errors.Is(err, serve.ErrEnded) {
		return ui.ExitOK
	}
	lost := a.Out.Close()
	if lost != nil && !ui.ReaderGone(lost) && !errors.As(err, new(*ui.OutputError)) {
		a.Console.Say(lost.Error())
	}
	if lost != nil && (code == ui.ExitOK || ui.ReaderGone(lost)) {
		return ui.CodeOf(lost)
	}
	return code
}

// exitCode reports a command's error, unless that was done, and returns the exit code.
func exitCode(ctx context.Context, a *ui.App, cmd *cobra.Command, err error) int {
	if signal := ui.Interrupted(ctx); signal != nil {
		return signal.Code()
	}
	if failed, ok := errors.AsType[*ui.ExitError](err); ok { // everything has been reported
		return failed.Code
	}
	code := ui.CodeOf(err)
	if err != nil && code != ui.ExitOutputGone {
		a.Console.Say(err.Error())
		if usage, ok := errors.AsType[*ui.UsageError](err); ok {
			fmt.Fprintf(a.Console, "Try `%s --help` for more information.\n",
				cmp.Or(usage.Command, cmd.CommandPath()))
		}
	}
	return code
}

// unknownCommandError names the command that was probably meant, or none.
type unknownCommandError struct{ name, meant string }

func (e *unknownCommandError) Error() string {
	text := fmt.Sprintf("unknown command %q", e.name)
	switch e.meant {
	case "":
		return text
	case "cp":
		return text + "; `usftp cp` copies files"
	}
	return text + "; did you mean `usftp " + e.meant + "`?"
}

// otherNames are what other tools call our commands.
var otherNames = map[string]string{"copy": "cp", "get": "cp", "put": "cp", "scp": "cp",
	"rsync": "sync", "mirror": "sync", "dir": "ls", "list": "ls", "delete": "rm", "del": "rm",
	"unlink": "rm", "rename": "mv", "move": "mv", "sftp": "shell", "server": "serve",
	"unmount": "umount", "ncdu": "du"}

func unknownCommand(root *cobra.Command, name string) *unknownCommandError {
	meant := otherNames[name]
	root.SuggestionsMinimumDistance = min(2, len(name)/2) // two letters are near to any two
	if near := root.SuggestionsFor(name); meant == "" && len(near) > 0 {
		meant = near[0]
	}
	return &unknownCommandError{name, meant}
}

// commandLine returns the command tree, from which parsing, help, completion and the man page
// follow.
func commandLine(a *ui.App) *cobra.Command {
	root := &cobra.Command{
		Use:           "usftp",
		Short:         "copy files over SSH with SFTP, as fast as the link allows",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := unknownCommand(cmd, args[0])
			if len(args) > 1 && err.meant == "" {
				err.meant = "cp"
			}
			return &ui.UsageError{Err: err}
		},
	}
	root.SetOut(a.Out)
	root.SetErr(a.Console)
	root.SetHelpFunc(help)
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &ui.UsageError{Err: flagError(cmd, err)}
	})
	// Not cobra's own version flag, which uses a template: linking text/template makes the linker
	// keep all methods, which costs 4.7 MB.
	version := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return printVersion(cmd)
		}
		return cmd.Help()
	}
	cobra.EnableCommandSorting = false // keep cp first
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.AddCommand(cp.Command(a), sync.Command(a), check.Command(a))
	root.AddCommand(files.Commands(a)...)
	root.AddCommand(shell.Command(a), mount.Command(a), mount.UmountCommand(a), serve.Command(a),
		serve.HashPasswordCommand(a),
		demo.Command(a), versionCommand(), completionCommand(), manCommand(root), healthCommand())
	for _, c := range root.Commands() {
		if c.Flags().Lookup("help") == nil {
			c.Flags().BoolP("help", "h", false, "print help") // cobra's names the command again
		}
	}
	complete.Flags(root)
	return root
}
