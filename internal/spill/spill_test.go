package spill

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestNoRoom: where there is no place for a file, a list does not grow in memory instead.
func TestNoRoom(t *testing.T) {
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		t.Setenv(name, filepath.Join(t.TempDir(), "none"))
	}
	var s List
	defer s.Close()
	for range 1000 {
		s.Add(strings.Repeat("x", 10_000))
	}
	if n := cap(s.data); n > 4*mostMemory {
		t.Errorf("%d bytes are in memory", n)
	}
	for _, err := range s.All() {
		if err == nil {
			t.Error("there is no error")
		}
	}
}
