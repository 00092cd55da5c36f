package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/peterh/liner"
)

// Only its owner can read the history, and it keeps what a person wants to see again.
func TestHistory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state", "history")
	open := func() (h *history, lines []string) {
		t.Helper()
		h, err := openHistory(file, func(line string) { lines = append(lines, line) })
		if err != nil {
			t.Fatal(err)
		}
		return h, lines
	}
	h, lines := open()
	other, _ := open()
	for _, line := range []string{"first one", "second", "second", "  secret", "", "\x1b[31mred",
		"third"} {
		h.add(line)
	}
	other.add("in another session")
	info, err := os.Stat(file)
	if err != nil || len(lines) > 0 ||
		runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Fatalf("the file: %v, %v; at first there are %q", info, err, lines)
	}
	h, lines = open()
	if want := []string{"first one", "second", "third", "in another session"}; !slices.Equal(lines,
		want) {
		t.Errorf("kept are %q, want %q", lines, want)
	}
	if h.add("in another session") {
		t.Error("the line of the last session is kept twice")
	}
	const many = 3 * liner.HistoryLimit
	var long strings.Builder
	for i := range many {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	if err := os.WriteFile(file, []byte(long.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	_, lines = open()
	if n := len(lines); n != liner.HistoryLimit || lines[n-1] != fmt.Sprintf("line %d", many-1) {
		t.Errorf("%d lines are kept", n)
	}
	text, _ := os.ReadFile(file)
	if info, _ := os.Stat(file); strings.Count(string(text), "\n") != liner.HistoryLimit ||
		runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %d lines, mode %v", strings.Count(string(text), "\n"), info.Mode())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if h, err := openHistory(file, nil); err == nil || !h.add("kept in memory") {
		t.Errorf("a history that cannot be read: %v", err)
	}
}
