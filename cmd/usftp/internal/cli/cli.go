// Package cli is the command usftp: its verbs, help, completion and the man pages.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/check"
	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/cmd/usftp/internal/cp"
	"github.com/usftp/usftp/cmd/usftp/internal/demo"
	"github.com/usftp/usftp/cmd/usftp/internal/files"
	"github.com/usftp/usftp/cmd/usftp/internal/history"
	"github.com/usftp/usftp/cmd/usftp/internal/mount"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/cmd/usftp/internal/serve"
	"github.com/usftp/usftp/cmd/usftp/internal/shell"
	"github.com/usftp/usftp/cmd/usftp/internal/sync"
	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/internal/ui"
)

// Main runs the command with its arguments (without the program's name) and returns the exit code.
func Main(args []string) int {
	a := ui.NewApp("usftp")
	a.Console.Words = report.Advice
	ctx, stop := a.CatchSignals(context.Background())
	defer stop()
	a.Args = mount.AsHelper(os.Args[0], serve.AsSFTPServer(os.Args[0], args))
	return cmdline.Run(ctx, a, commandLine(a), sync.Habits(files.Historical(a.Args)))
}

// commandLine returns the command tree, the source of parsing, help, completion and the man page.
func commandLine(a *ui.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "usftp COMMAND [flags] [operands]",
		Short: "copy files over SSH with SFTP, as fast as the link allows",
		Long:  rootLong,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := hintAt(cmd, args[0])
			if hint == "" && len(args) > 1 {
				hint = copies
			}
			return &ui.UsageError{Err: fmt.Errorf("unknown command %q%s", args[0], hint)}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(cp.Command(a), sync.Command(a), check.Command(a))
	root.AddCommand(files.Commands(a)...)
	root.AddCommand(shell.Command(a), mount.Command(a), mount.UmountCommand(), serve.Command(a),
		demo.Command(a), history.Command(a), cmdline.Version(), cmdline.Completion(completionLong),
		manCommand(root),
		opt.Topic())
	cmdline.Complete(a, root, cmdline.Texts{Hint: flagHint, Usage: moreUsage})
	complete.Flags(root)
	return root
}

const copies = "; `usftp cp` copies files"

// otherNames are the names that other tools have for our commands.
var otherNames = map[string]string{"copy": "cp", "get": "cp", "put": "cp", "scp": "cp",
	"rsync": "sync", "mirror": "sync", "dir": "ls", "list": "ls", "delete": "rm", "del": "rm",
	"unlink": "rm", "rename": "mv", "move": "mv", "sftp": "shell", "server": "serve",
	"unmount": "umount", "ncdu": "du", "chgrp": "chown"}

// hintAt returns a hint to the command probably meant by an unknown one, or "".
func hintAt(root *cobra.Command, name string) string {
	if name == "hash-password" {
		return "; it is a command of usftpd"
	}
	meant := otherNames[name]
	root.SuggestionsMinimumDistance = min(2, len(name)/2) // two letters are near to any two
	if near := root.SuggestionsFor(name); meant == "" && len(near) > 0 {
		meant = near[0]
	}
	switch meant {
	case "":
		return ""
	case "cp":
		return copies
	}
	return "; did you mean `usftp " + meant + "`?"
}

// moreUsage writes the end of a command's help.
func moreUsage(w io.Writer, cmd *cobra.Command) {
	if name := cmd.Name(); name == "cp" || name == "check" || name == "sync" {
		fmt.Fprint(w, "\nExit codes:\n")
		for _, e := range ui.ExitCodes {
			meaning, ofSync := strings.CutPrefix(e.Meaning, "sync: ")
			if !ofSync || name == "sync" {
				ui.WriteColumn(w, 5, e.Code, meaning)
			}
		}
	}
	if !cmd.HasParent() {
		fmt.Fprintf(w, "\nUse `usftp help COMMAND` for more about a command, and `usftp help connection`\nfor the flags that say how to connect.\n")
	}
}
