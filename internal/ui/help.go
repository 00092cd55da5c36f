package ui

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// helpWidth is the width of help: the width of the narrowest terminal in use.
const helpWidth = 80

// FlagForm returns a flag as "-F, --config file", and its text.
func FlagForm(f *pflag.Flag) (form, text string) {
	argument, text := pflag.UnquoteUsage(f)
	form = "    --" + f.Name
	if f.Shorthand != "" {
		form = "-" + f.Shorthand + ", --" + f.Name
	}
	switch {
	case f.Value.Type() == "bool" || f.Value.Type() == "count":
	case f.NoOptDefVal != "":
		form += "[=" + argument + "]"
	default:
		form += " " + argument
	}
	return form, text + defaultText(f)
}

// defaultText returns the end of a flag's text, with its default unless the text has it already.
func defaultText(f *pflag.Flag) string {
	value := f.DefValue
	switch f.Value.Type() {
	case "bool", "count":
		return ""
	case "duration": // 15m0s
		value = strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(value)
	}
	switch value {
	case "", "[]", "0", "0s", "-1": // not set
		return ""
	}
	if strings.Contains(f.Usage, "default") {
		return ""
	}
	return " (default " + value + ")"
}

// WriteColumn writes a term and, starting at a column, its meaning.
func WriteColumn(w io.Writer, width int, term, text string) {
	line := fmt.Sprintf("  %-*s", width, term)
	if term != "" && len(term) >= width {
		fmt.Fprintln(w, line)
		line = strings.Repeat(" ", width+2)
	}
	writeFilled(w, line+" ", strings.Repeat(" ", width+3), text)
}

// WriteParagraphs writes text whose paragraphs are separated by empty lines. It keeps a paragraph
// that begins with two spaces as it is, and fills the lines of the others.
func WriteParagraphs(w io.Writer, text string) {
	for i, p := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if strings.HasPrefix(p, "  ") {
			fmt.Fprintln(w, p)
		} else {
			writeFilled(w, "", "", p)
		}
	}
}

// writeFilled writes the words of text in lines that fit, the first one after line and the others
// after indent.
func writeFilled(w io.Writer, line, indent, text string) {
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && len(line)+1+len(word) > helpWidth {
			fmt.Fprintln(w, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
}
