package spill

import (
	"os"
	"path/filepath"
	"runtime"
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

// TestKilled: of a process that is killed no file stays, where a file can be open without a name.
func TestKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file has a name on Windows")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var s List
	defer s.Close()
	want := 0
	for want < 3*mostMemory/1000 {
		s.Add(strings.Repeat("x", 1000))
		want++
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("%v is there, %v", left, err)
	}
	got := 0
	for record, err := range s.All() {
		if err != nil || len(record) != 1 || len(record[0]) != 1000 {
			t.Fatal(record, err)
		}
		got++
	}
	if got != want {
		t.Errorf("%d records of %d", got, want)
	}
}
