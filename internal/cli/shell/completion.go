package shell

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/usftp/usftp/internal/cli/lineedit"
)

// complete completes a command line for the editor: the command's name, or an operand by what the
// table says of it. pending says that a listing has been asked for.
func (s *Shell) complete(text string, at int) (c lineedit.Completion, pending bool) {
	text = text[:at]
	lead := len(text) - len(strings.TrimLeft(text, " \t-@"))
	words, open := scan(text[lead:], shQuoting)
	for i := range words {
		words[i].start += lead
		words[i].end += lead
	}
	current := word{start: at, end: at}
	if n := len(words); n > 0 && (words[n-1].end == at || open != 0) {
		current = words[n-1]
		words = words[:n-1]
	}
	if open == '\\' || current.isPattern() {
		return c, false
	}
	c.Start = current.start
	if len(words) == 0 {
		s.completeCommand(&c, current.text)
		return c, false
	}
	command := find(words[0].text)
	if command == nil {
		return c, false
	}
	n := 0
	for _, w := range words[1:] {
		if !strings.HasPrefix(w.text, "-") {
			n++
		}
	}
	o := operand{word: current, open: open, typed: text[current.start:]}
	switch kind := command.kindOf(n); kind {
	case remote, remoteDirectory:
		return s.completeRemote(o, kind == remoteDirectory)
	case local, localDirectory:
		return o.completion(localEntries(o.directory()), kind == localDirectory), false
	case either:
		if begun, ok := strings.CutPrefix(o.typed, ":"); ok {
			o.start, o.typed, o.text = o.start+1, begun, o.text[1:]
			return s.completeRemote(o, true)
		}
		return o.completion(localEntries(o.directory()), true), false
	case commandName:
		s.completeCommand(&c, current.text)
	}
	return c, false
}

// kindOf is what the operand with a number is.
func (c *command) kindOf(n int) kind {
	if len(c.takes) == 0 {
		return other
	}
	return c.takes[min(n, len(c.takes)-1)]
}

// completeCommand completes the name of a command.
func (s *Shell) completeCommand(c *lineedit.Completion, begun string) {
	for i := range commands {
		for _, name := range commands[i].names {
			if strings.HasPrefix(name, strings.ToLower(begun)) {
				c.List = append(c.List, name)
			}
		}
	}
	c.Text = common(c.List)
	if len(c.List) == 1 {
		c.Text += " "
	}
}

// An operand is the word that is completed.
type operand struct {
	word
	open  byte   // the quote that is open at the cursor
	typed string // as it is in the line
}

// directory is what was typed up to the last slash.
func (o operand) directory() string {
	return o.text[:strings.LastIndexByte(o.text, '/')+1]
}

// completeRemote completes a name on the host.
func (s *Shell) completeRemote(o operand, directories bool) (c lineedit.Completion, pending bool) {
	dir := o.directory()
	if strings.HasPrefix(dir, "~/") && !strings.HasPrefix(o.typed, `\`) && o.open == 0 {
		dir = s.session.home + dir[1:]
	}
	_, at := s.session.client()
	if !path.IsAbs(dir) {
		dir = path.Join(at, dir)
	}
	names, pending := s.listings.get(path.Clean(dir))
	if pending {
		return c, true
	}
	return o.completion(names, directories), false
}

// localEntries lists a local directory.
func localEntries(dir string) (entries []entry) {
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(dir, "~/") {
		dir = filepath.Join(home, dir[1:])
	}
	if dir == "" {
		dir = "."
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	list, _ := f.ReadDir(listingMost)
	for _, e := range list {
		directory := e.IsDir()
		if e.Type()&os.ModeSymlink != 0 {
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			directory = err == nil && info.IsDir()
		}
		entries = append(entries, entry{e.Name(), directory})
	}
	return entries
}

// completion finds the names that go on from what was typed.
func (o operand) completion(names []entry, directories bool) (c lineedit.Completion) {
	c.Start = o.start
	dir := o.directory()
	begun := o.text[len(dir):]
	var found []string
	isDirectory := false
	for _, e := range names {
		if !strings.HasPrefix(e.name, begun) || directories && !e.directory ||
			strings.HasPrefix(e.name, ".") && !strings.HasPrefix(begun, ".") {
			continue
		}
		found = append(found, e.name)
		shown := e.name
		if isDirectory = e.directory; e.directory {
			shown += "/"
		}
		c.List = append(c.List, shown)
	}
	if len(found) == 0 {
		return c
	}
	// What was typed stays as it is, in its own quotes; what is added is quoted alike.
	c.Text = o.typed + quote(common(found)[len(begun):], o.open)
	if len(found) == 1 {
		switch {
		case isDirectory:
			c.Text += "/"
		case o.open != 0:
			c.Text += string(o.open) + " "
		default:
			c.Text += " "
		}
	}
	return c
}

// common is how all of the names begin.
func common(names []string) string {
	if len(names) == 0 {
		return ""
	}
	prefix := names[0]
	for _, name := range names[1:] {
		n := 0
		for n < len(prefix) && n < len(name) && prefix[n] == name[n] {
			n++
		}
		prefix = prefix[:n]
	}
	for !utf8.ValidString(prefix) && utf8.ValidString(names[0]) { // a letter was cut
		prefix = prefix[:len(prefix)-1]
	}
	return prefix
}
