package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/internal/ui"
)

// manCommand returns a command that prints the man page, or writes all man pages to a directory, as
// for docs.
func manCommand(root *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:    "man",
		Short:  "print the man page",
		Hidden: true,
		Args:   ui.NoArgs,
	}
	dir := cmd.Flags().String("dir", "", "write the man pages of all commands to this `directory`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		pages := manPages(root)
		if *dir == "" {
			_, err := io.WriteString(cmd.OutOrStdout(), pages["usftp.1"])
			return err
		}
		if err := os.MkdirAll(*dir, 0o755); err != nil {
			return err
		}
		for name, page := range pages {
			if err := os.WriteFile(filepath.Join(*dir, name), []byte(page), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// manPages returns all man pages by file name: one for usftp, and one for each command that has its
// own.
func manPages(root *cobra.Command) map[string]string {
	var b strings.Builder
	writeMan(&b, root)
	pages := map[string]string{"usftp.1": b.String()}
	for _, cmd := range root.Commands() {
		if hasPage(cmd) {
			b.Reset()
			writeCommandMan(&b, cmd)
			pages["usftp-"+cmd.Name()+".1"] = b.String()
		}
	}
	return pages
}

// hasPage reports whether a command has a man page of its own.
func hasPage(cmd *cobra.Command) bool { return cmd.Annotations[opt.OwnPage] != "" }

const manHead = `.\" Made by "usftp man --dir docs" out of the same tables as the help. Do not edit.`

// writeCommandMan writes the man page of one command.
func writeCommandMan(w io.Writer, cmd *cobra.Command) {
	fmt.Fprintf(w, "%s\n.TH USFTP-%s 1\n", manHead, cmdline.Roff(strings.ToUpper(cmd.Name())))
	fmt.Fprintf(w, ".SH NAME\nusftp\\-%s \\- %s\n", cmdline.Roff(cmd.Name()), cmdline.Roff(cmd.Short))
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n", cmdline.Roff(cmdline.Synopsis(cmd)))
	cmdline.WriteCommand(w, cmd)
	fmt.Fprint(w, ".SH EXIT STATUS\n")
	cmdline.WriteParagraphs(w, cmd.Annotations[opt.OwnPage])
	other := cmd.Name()
	switch other {
	case "shell":
		other = "sftp"
	case "mount", "umount":
		other = "sshfs"
	case "sync":
		other = "rsync"
	}
	fmt.Fprintf(w, ".SH SEE ALSO\nusftp(1), %s(1)\n", cmdline.Roff(other))
}

// writeMan writes the man page, in the macros of man(7).
func writeMan(w io.Writer, root *cobra.Command) {
	fmt.Fprintln(w, manHead)
	fmt.Fprintln(w, ".TH USFTP 1")
	fmt.Fprintf(w, ".SH NAME\nusftp \\- %s\n.SH SYNOPSIS\n", cmdline.Roff(root.Short))
	var commands []*cobra.Command
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" {
			commands = append(commands, cmd)
		}
	}
	for i, cmd := range commands {
		if i > 0 {
			fmt.Fprintln(w, ".br")
		}
		fmt.Fprintf(w, ".B %s\n", cmdline.Roff(cmdline.Synopsis(cmd)))
	}
	fmt.Fprintln(w, ".SH DESCRIPTION")
	cmdline.WriteParagraphs(w, rootLong)
	for _, cmd := range commands {
		if hasPage(cmd) {
			continue
		}
		fmt.Fprintf(w, ".SH \"%s\"\n", cmdline.Roff(strings.ToUpper("usftp "+cmd.Name())))
		cmdline.WriteCommand(w, cmd)
	}
	fmt.Fprintln(w, ".SH FILES ON HOSTS")
	cmdline.WriteParagraphs(w, filesLong)
	for _, cmd := range commands {
		if hasPage(cmd) {
			fmt.Fprintf(w, ".TP\n.B %s\n%s; see usftp\\-%s(1)\n", cmdline.Roff("usftp "+cmd.Name()),
				cmdline.Roff(cmd.Short), cmdline.Roff(cmd.Name()))
		}
	}
	fmt.Fprintln(w, ".SH EXIT STATUS")
	for _, e := range ui.ExitCodes {
		fmt.Fprintf(w, ".TP\n.B %s\n%s\n", e.Code, cmdline.Roff(e.Meaning))
	}
	fmt.Fprint(w, ".PP\nCommands for files on hosts use the exit codes of the tools they are named after:\n"+
		"wrong usage is 1, or 2 for ls.\n")
	for _, section := range manual {
		fmt.Fprintf(w, ".SH %s\n", section.title)
		cmdline.WriteParagraphs(w, section.text)
	}
	fmt.Fprintf(w, ".SH SEE ALSO\n%s\n", cmdline.Roff(manSeeAlso))
}
