package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/ui"
)

// manCommand prints the man page, or writes all man pages to a directory; those in docs are written
// this way.
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
	fmt.Fprintf(w, "%s\n.TH USFTP-%s 1\n", manHead, roff(strings.ToUpper(cmd.Name())))
	fmt.Fprintf(w, ".SH NAME\nusftp\\-%s \\- %s\n", roff(cmd.Name()), roff(cmd.Short))
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n", roff(synopsis(cmd)))
	writeCommand(w, cmd)
	fmt.Fprint(w, ".SH EXIT STATUS\n")
	paragraphs(w, cmd.Annotations[opt.OwnPage])
	other := cmd.Name()
	switch other {
	case "shell":
		other = "sftp"
	case "mount", "umount":
		other = "sshfs"
	case "sync":
		other = "rsync"
	}
	fmt.Fprintf(w, ".SH SEE ALSO\nusftp(1), %s(1)\n", roff(other))
}

// writeCommand writes a command's text, flags and examples.
func writeCommand(w io.Writer, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + "."
	}
	paragraphs(w, text)
	eachFlag(cmd, func(form, text string) {
		if !strings.Contains(form, "--help") {
			fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(form)), roff(text))
		}
	})
	if names := connectionFlags(cmd); names != "" {
		fmt.Fprintf(w, ".PP\nFlags that say how to connect, as for cp, by their long names only: %s\n",
			roff(names))
	}
	if cmd.HasExample() {
		fmt.Fprintln(w, ".PP\nExamples:")
		paragraphs(w, cmd.Example)
	}
}

// writeMan writes the man page, in the macros of man(7).
func writeMan(w io.Writer, root *cobra.Command) {
	fmt.Fprintln(w, manHead)
	fmt.Fprintln(w, ".TH USFTP 1")
	fmt.Fprintf(w, ".SH NAME\nusftp \\- %s\n.SH SYNOPSIS\n", roff(root.Short))
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
		fmt.Fprintf(w, ".B %s\n", roff(synopsis(cmd)))
	}
	fmt.Fprintln(w, ".SH DESCRIPTION")
	paragraphs(w, rootLong)
	for _, cmd := range commands {
		if hasPage(cmd) {
			continue
		}
		fmt.Fprintf(w, ".SH \"%s\"\n", roff(strings.ToUpper("usftp "+cmd.Name())))
		writeCommand(w, cmd)
	}
	fmt.Fprintln(w, ".SH FILES ON HOSTS")
	paragraphs(w, filesLong)
	for _, cmd := range commands {
		if hasPage(cmd) {
			fmt.Fprintf(w, ".TP\n.B %s\n%s; see usftp\\-%s(1)\n", roff("usftp "+cmd.Name()),
				roff(cmd.Short), roff(cmd.Name()))
		}
	}
	fmt.Fprintln(w, ".SH EXIT STATUS")
	for _, e := range ui.ExitCodes {
		fmt.Fprintf(w, ".TP\n.B %s\n%s\n", e.Code, roff(e.Meaning))
	}
	fmt.Fprint(w, ".PP\nCommands for files on hosts use the exit codes of the tools they are named after:\n"+
		"wrong usage is 1, or 2 for ls.\n")
	for _, section := range manual {
		fmt.Fprintf(w, ".SH %s\n", section.title)
		paragraphs(w, section.text)
	}
	fmt.Fprintf(w, ".SH SEE ALSO\n%s\n", roff(manSeeAlso))
}

// paragraphs removes the line breaks of help, so that man can wrap the text itself.
func paragraphs(w io.Writer, text string) {
	for p := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(p, "  ") {
			fmt.Fprintf(w, ".PP\n.nf\n%s\n.fi\n", roff(p))
		} else {
			fmt.Fprintf(w, ".PP\n%s\n", roff(p))
		}
	}
}

// roff escapes text so that it is not taken for requests, and hyphens stay hyphens.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
