package lineedit

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLines is how many lines a history keeps, and maxLine how long they may be.
const (
	maxLines = 1000
	maxLine  = 16 << 10
)

// A History is the lines that were entered, the newest last.
type History struct {
	lines []string
	file  string // "" if it is not kept

	at    int            // which line is shown; len(lines) is the new one
	edits map[int]string // lines that were changed and not entered
}

// Open reads the history that is kept in a file, which need not exist. Lines that are added are
// appended to it; other programs may do the same. The error says why it cannot be read; the History
// is usable then, and not kept.
func Open(file string) (*History, error) {
	h := new(History)
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return h, err
	}
	h.file = file
	count := 0
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxLine+1)
	for lines.Scan() {
		h.push(lines.Text())
		count++
	}
	if count > 2*maxLines || lines.Err() != nil {
		err = h.rewrite()
	} else {
		err = nil
	}
	return h, err
}

// rewrite replaces the file by what is kept of it.
func (h *History) rewrite() error {
	f, err := os.CreateTemp(filepath.Dir(h.file), ".history-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(h.lines, "\n") + "\n")
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), h.file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// push adds a line without keeping it.
func (h *History) push(line string) bool {
	if strings.TrimSpace(line) == "" || line[0] == ' ' || len(line) > maxLine ||
		len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return false
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > maxLines {
		h.lines = slices.Delete(h.lines, 0, len(h.lines)-maxLines)
	}
	return true
}

// Add adds a line, unless it is the same as the last one, or begins with a space, by which a person
// says that it should not be kept. What cannot be written is forgotten when the program ends.
func (h *History) Add(line string) {
	if !h.push(line) || h.file == "" {
		return
	}
	if os.MkdirAll(filepath.Dir(h.file), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(h.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	f.WriteString(line + "\n")
	f.Close()
}

// begin begins a new line.
func (h *History) begin() { h.at, h.edits = len(h.lines), make(map[int]string) }

func (h *History) newest() int { return len(h.lines) - 1 }

// older gives the line before the one that is shown, and keeps what became of that.
func (h *History) older(shown string) (line string, ok bool) { return h.move(shown, -1) }

// newer gives the line after the one that is shown.
func (h *History) newer(shown string) (line string, ok bool) { return h.move(shown, 1) }

func (h *History) move(shown string, by int) (line string, ok bool) {
	to := h.at + by
	if to < 0 || to > len(h.lines) {
		return "", false
	}
	h.edits[h.at] = shown
	h.at = to
	if line, ok = h.edits[to]; ok {
		return line, true
	}
	return h.lines[to], true
}

// find looks for a query in the lines from one on and back; again goes on to another line than the
// one that was found.
func (h *History) find(query string, from int, again bool, found string) (line string, at int,
	ok bool) {
	for i := from; i >= 0; i-- {
		if strings.Contains(h.lines[i], query) && !(again && h.lines[i] == found) {
			return h.lines[i], i, true
		}
	}
	return "", from, false
}
