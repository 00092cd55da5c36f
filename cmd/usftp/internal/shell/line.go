package shell

import (
	"fmt"
	"strings"
)

// A line is one command as typed.
type line struct {
	ignoreErrors bool // it began with -
	silent       bool // it began with @: not shown in batches
	command      *command
	args         []word
	rest         string // the text after the command's name, as typed
}

// parseLine parses a command line. The command is nil if there is none, as in an empty line.
func parseLine(text string, q quoting) (l line, err error) {
	text = strings.TrimSpace(text)
	for ; text != ""; text = text[1:] {
		if text[0] == '-' {
			l.ignoreErrors = true
		} else if text[0] == '@' {
			l.silent = true
		} else {
			break
		}
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "" || text[0] == '#':
		return l, nil
	case text[0] == '!':
		l.command, l.rest = find("!"), strings.TrimSpace(text[1:])
		return l, nil
	}
	name, rest, _ := strings.Cut(text, " ")
	if c := find(name); c != nil && c.raw { // the local shell has its own syntax
		l.command, l.rest = c, strings.TrimSpace(rest)
		return l, nil
	}
	words, err := split(text, q)
	if err == nil {
		err = refuseOperators(words, q)
	}
	if err != nil {
		return l, err
	}
	if l.command = find(words[0].text); l.command == nil {
		return l, fmt.Errorf("unknown command %q; try help", words[0].text)
	}
	l.args, l.rest = words[1:], text[words[0].end:]
	return l, nil
}
