package cmdline

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// WriteCommand writes a command's text, flags and examples.
func WriteCommand(w io.Writer, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + "."
	}
	WriteParagraphs(w, text)
	eachFlag(cmd, func(form, text string) {
		if !strings.Contains(form, "--help") {
			fmt.Fprintf(w, ".TP\n.B %s\n%s\n", Roff(strings.TrimSpace(form)), Roff(text))
		}
	})
	if names := connectionFlags(cmd); names != "" {
		fmt.Fprintf(w, ".PP\nFlags that say how to connect, as for cp: %s\n",
			Roff(names))
	}
	if cmd.HasExample() {
		fmt.Fprintln(w, ".PP\nExamples:")
		WriteParagraphs(w, cmd.Example)
	}
}

// WriteParagraphs removes the line breaks of help, so that man can wrap the text itself.
func WriteParagraphs(w io.Writer, text string) {
	for p := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(p, "  ") {
			fmt.Fprintf(w, ".PP\n.nf\n%s\n.fi\n", Roff(p))
		} else {
			fmt.Fprintf(w, ".PP\n%s\n", Roff(p))
		}
	}
}

// Roff escapes text so that it is not taken for requests, and hyphens stay hyphens.
func Roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
