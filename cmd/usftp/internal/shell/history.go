package shell

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/peterh/liner"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/ui"
)

// A history is a file of the typed lines, which only its owner can read. The editor keeps the
// newest liner.HistoryLimit of them; the file is cut to as many when it has twice that.
type history struct {
	file string // "" if nothing is kept
	last string
}

// openHistory passes each line of a file, which need not exist, to add. An error says why it cannot
// be read; the history still works then, but keeps nothing.
func openHistory(file string, add func(line string)) (*history, error) {
	h := new(history)
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return h, err
	}
	var kept []string
	count := 0
	for line := range strings.Lines(string(text)) {
		count++
		if line = strings.TrimRight(line, "\n"); h.wants(line) {
			h.last = line
			kept = append(kept, line)
		}
	}
	kept = kept[max(0, len(kept)-liner.HistoryLimit):]
	for _, line := range kept {
		add(line)
	}
	h.file = file
	if count > 2*liner.HistoryLimit {
		return h, h.rewrite(kept)
	}
	return h, nil
}

// rewrite replaces the file.
func (h *history) rewrite(lines []string) error {
	return localfs.ReplacePrivate(h.file, []byte(strings.Join(lines, "\n")+"\n"))
}

// wants reports whether a line should be kept: not if it begins with a space or repeats the
// previous line. The editor shows lines unescaped, so none may have control characters.
func (h *history) wants(line string) bool {
	return strings.TrimSpace(line) != "" && line[0] != ' ' && line != h.last &&
		ui.Printable(line) == line
}

// add appends a line to the file, and reports whether it should be kept. Other sessions append too,
// so the file has the lines of all. A failed write is ignored.
func (h *history) add(line string) bool {
	if !h.wants(line) {
		return false
	}
	h.last = line
	if h.file == "" || os.MkdirAll(filepath.Dir(h.file), 0o700) != nil {
		return true
	}
	f, err := os.OpenFile(h.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return true
	}
	f.WriteString(line + "\n")
	f.Close()
	return true
}
