package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/cli/ui"
)

// manCommand prints the man page; docs/usftp.1 is what it prints.
func manCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "print the man page",
		Hidden: true,
		Args:   ui.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var b strings.Builder
			writeMan(&b, root)
			_, err := io.WriteString(cmd.OutOrStdout(), b.String())
			return err
		},
	}
}

// writeMan writes the man page, in the macros of man(7).
func writeMan(w io.Writer, root *cobra.Command) {
	fmt.Fprintln(w, `.\" Made by "usftp man" out of the same tables as the help. Do not edit.`)
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
		fmt.Fprintf(w, ".SH \"%s\"\n", roff(strings.ToUpper("usftp "+cmd.Name())))
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
	fmt.Fprintln(w, ".SH EXIT STATUS")
	for _, e := range ui.ExitCodes {
		fmt.Fprintf(w, ".TP\n.B %s\n%s\n", e.Code, roff(e.Meaning))
	}
	for _, section := range manual {
		fmt.Fprintf(w, ".SH %s\n", section.title)
		paragraphs(w, section.text)
	}
	fmt.Fprintf(w, ".SH SEE ALSO\n%s\n", roff(manSeeAlso))
}

// paragraphs writes text that is wrapped for help so that man can wrap it anew.
func paragraphs(w io.Writer, text string) {
	for _, p := range strings.Split(text, "\n\n") {
		if strings.HasPrefix(p, "  ") {
			fmt.Fprintf(w, ".PP\n.nf\n%s\n.fi\n", roff(p))
		} else {
			fmt.Fprintf(w, ".PP\n%s\n", roff(p))
		}
	}
}

// roff keeps text from being taken for requests, and hyphens for ornaments.
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
