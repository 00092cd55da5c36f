package daemon

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/internal/ui"
)

// manCommand prints the man page; the one in docs is written this way.
func manCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "print the man page",
		Hidden: true,
		Args:   ui.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), manPage(root))
			return err
		},
	}
}

// manPage returns the man page, in the macros of man(7).
func manPage(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintln(&b, `.\" Made by "usftpd man" out of the same tables as the help. Do not edit.`)
	fmt.Fprintf(&b, ".TH USFTPD 8\n.SH NAME\nusftpd \\- %s\n.SH SYNOPSIS\n",
		cmdline.Roff(root.Short))
	fmt.Fprintf(&b, ".B %s\n", cmdline.Roff(root.Use))
	commands := commandsOf(root)
	for _, cmd := range commands {
		if !cmd.HasSubCommands() {
			fmt.Fprintf(&b, ".br\n.B %s\n", cmdline.Roff(cmdline.Synopsis(cmd)))
		}
	}
	fmt.Fprintln(&b, ".SH DESCRIPTION")
	cmdline.WriteCommand(&b, root)
	for _, cmd := range commands {
		fmt.Fprintf(&b, ".SH \"%s\"\n", cmdline.Roff(strings.ToUpper(cmd.CommandPath())))
		cmdline.WriteCommand(&b, cmd)
	}
	fmt.Fprintln(&b, ".SH SEE ALSO\nusftp(1), sshd(8), sftp(1)")
	return b.String()
}

// commandsOf returns the commands below one.
func commandsOf(parent *cobra.Command) (all []*cobra.Command) {
	for _, cmd := range parent.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" {
			all = append(append(all, cmd), commandsOf(cmd)...)
		}
	}
	return all
}
