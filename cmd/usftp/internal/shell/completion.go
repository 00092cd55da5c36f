package shell

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/internal/ui"
)

// complete completes the line up to pos, which counts characters, for the editor: a command's name,
// or an operand of the kind that the table gives. It waits for a moment only: if a listing has not
// arrived by then there are no candidates, and a later Tab finds it.
func (s *shell) complete(line string, pos int) (head string, candidates []string, tail string) {
	runes := []rune(line)
	text, tail := string(runes[:pos]), string(runes[pos:])
	lead := len(text) - len(strings.TrimLeft(text, " \t-@"))
	words, open := scan(text[lead:], shQuoting)
	o := operand{word: word{start: len(text)}, open: open}
	if n := len(words); n > 0 && (lead+words[n-1].end == len(text) || open != 0) {
		o.word = words[n-1]
		o.start += lead
		words = words[:n-1]
	}
	if open == '\\' || o.isPattern() {
		return text, nil, tail
	}
	o.typed = text[o.start:]
	from, candidates := s.candidates(words, o)
	return text[:o.start+from], candidates, tail
}

// candidates returns replacements for the operand as typed, from byte from on.
func (s *shell) candidates(before []word, o operand) (from int, candidates []string) {
	if len(before) == 0 {
		return 0, commandNames(o.text)
	}
	command := find(before[0].text)
	if command == nil {
		return 0, nil
	}
	n := 0
	for _, w := range before[1:] {
		if !strings.HasPrefix(w.text, "-") {
			n++
		}
	}
	switch kind := command.kindOf(n); kind {
	case remote, remoteDirectory:
		return s.remoteCandidates(o, kind == remoteDirectory)
	case local, localDirectory:
		return o.candidates(localEntries(o.directory()), kind == localDirectory)
	case either:
		if typed, ok := strings.CutPrefix(o.typed, ":"); ok {
			o.typed, o.text = typed, o.text[1:]
			from, candidates = s.remoteCandidates(o, true)
			return from + 1, candidates
		}
		return o.candidates(localEntries(o.directory()), true)
	case commandName:
		return 0, commandNames(o.text)
	}
	return 0, nil
}

// kindOf returns the kind of the operand with this number.
func (c *command) kindOf(n int) kind {
	if len(c.takes) == 0 {
		return other
	}
	return c.takes[min(n, len(c.takes)-1)]
}

// commandNames returns the commands that begin with prefix.
func commandNames(prefix string) (names []string) {
	for i := range commands {
		for _, name := range commands[i].names {
			if strings.HasPrefix(name, strings.ToLower(prefix)) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 1 {
		names[0] += " "
	}
	return names
}

// An operand is the word being completed.
type operand struct {
	word
	open  byte   // the quote that is open at the cursor
	typed string // as it appears in the line
}

// directory returns the typed text up to the last slash.
func (o operand) directory() string {
	return o.text[:strings.LastIndexByte(o.text, '/')+1]
}

// remoteCandidates returns names on the host. If there is only one, and it is a directory, its
// listing is fetched for the next Tab.
func (s *shell) remoteCandidates(o operand, directories bool) (from int, candidates []string) {
	dir := o.directory()
	if strings.HasPrefix(dir, "~/") && !strings.HasPrefix(o.typed, `\`) && o.open == 0 {
		dir = s.session.home + dir[1:]
	}
	_, at := s.session.client()
	if !path.IsAbs(dir) {
		dir = path.Join(at, dir)
	}
	dir = path.Clean(dir)
	from, candidates = o.candidates(s.listings.await(dir), directories)
	if len(candidates) == 1 && strings.HasSuffix(candidates[0], "/") {
		words, _ := scan(o.typed[:from]+candidates[0], shQuoting)
		s.listings.get(path.Join(dir, path.Base(words[0].text)))
	}
	return from, candidates
}

// localEntries lists a local directory.
func localEntries(dir string) (entries []complete.Entry) {
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(dir, "~/") {
		dir = filepath.Join(home, dir[1:])
	}
	if dir == "" {
		dir = "."
	}
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		isDir := e.IsDir()
		if e.Type()&os.ModeSymlink != 0 {
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			isDir = err == nil && info.IsDir()
		}
		entries = append(entries, complete.Entry{Name: e.Name(), Dir: isDir})
	}
	return entries
}

// candidates returns the names that continue the typed text, which they replace from byte from on.
// The typed text stays unchanged, with its quotes, and the addition is quoted in the same way. The
// editor shows names unescaped, so names with control characters are left out.
func (o operand) candidates(entries []complete.Entry, directories bool) (from int,
	candidates []string) {
	prefix := o.text[len(o.directory()):]
	from = strings.LastIndexByte(o.typed, '/') + 1
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, prefix) || directories && !e.Dir ||
			strings.HasPrefix(e.Name, ".") && !strings.HasPrefix(prefix, ".") ||
			ui.Printable(e.Name) != e.Name {
			continue
		}
		name := o.typed[from:] + quote(e.Name[len(prefix):], o.open)
		if from == 0 && strings.HasPrefix(e.Name, "-") { // it would be taken for flags
			name = "./" + name
		}
		if e.Dir {
			name += "/"
		}
		candidates = append(candidates, name)
	}
	if len(candidates) == 1 && !strings.HasSuffix(candidates[0], "/") {
		if o.open != 0 {
			candidates[0] += string(o.open)
		}
		candidates[0] += " "
	}
	return from, candidates
}
