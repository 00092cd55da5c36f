//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestTreeOnScreen: a tree shows a line for the whole, one for the files under way, and in the end
// what limited the speed. Files that are there already take no time.
func TestTreeOnScreen(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "tree", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "tree", "deep", "big\x1b[31m"), randomData(1<<20))
	for _, name := range []string{"a", "b", "c"} {
		writeFile(t, filepath.Join(dir, "tree", name), randomData(1000))
	}
	target := "testhost:" + filepath.Join(dir, "copy")
	screens := make(map[uint16]*screen) // at once, as each mostly waits for its limit
	for _, columns := range []uint16{100, 40, 12} {
		screens[columns] = onScreen(t, columns, command(t, dir, "cp", "-r", "-F", server.ConfigFile,
			"-l", "4000", "tree", target+fmt.Sprint(columns)))
	}
	for columns, s := range screens {
		if columns == 100 {
			s.await(`tree +\d of 4\+? files +\d+% .* of 1\.05 MB .*[kM]B/s +00:0\d left`)
			s.await(`\n  deep/big\\x1b\[31m`)
		}
		if code := s.End(); code != 0 {
			t.Errorf("exit code %d: %q", code, &s.shown)
		}
		lines := s.lines()
		for _, line := range lines {
			if n := len([]rune(line)); n >= int(columns) && !strings.HasPrefix(line, "tree: ") {
				t.Errorf("a line of %d columns: %q", n, line)
			}
		}
		last := strings.Join(lines[max(0, len(lines)-2):], "\n")
		if columns == 100 && !regexp.MustCompile(
			`^tree +4 of 4 files 100% .* in 00:0\d\ntree: 4 files, 2 directories, .*, limited by --limit$`).MatchString(last) {
			t.Errorf("in the end it shows %q", last)
		}
	}
	cmd := command(t, dir, "cp", "-r", "-F", server.ConfigFile, "tree", target+"dumb")
	cmd.Env = append(cmd.Env, "TERM=dumb")
	s := onScreen(t, 100, cmd)
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d: %q", code, &s.shown)
	}
	if lines := s.lines(); len(lines) != 2 || strings.Contains(s.shown.String(), "\x1b") ||
		!strings.Contains(lines[0], "4 of 4 files 100%") {
		t.Errorf("a terminal that cannot move its cursor shows %q", &s.shown)
	}
	s = onScreen(t, 100, command(t, dir, "cp", "-r", "--resume", "-F", server.ConfigFile, "tree/.",
		target+"100"))
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d: %q", code, &s.shown)
	}
	s.await(`4 of 4 files 100% `)
	s.await(`4 files were already there`)
}

// TestTreeIsCountedAhead: from its first seconds the screen says how much a tree has, and when it
// will be done, though copying it takes long.
func TestTreeIsCountedAhead(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	for i := range 3000 {
		name := filepath.Join(dir, "tree", fmt.Sprint(i%30), fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, name, make([]byte, 10_000))
	}
	for name, args := range map[string][]string{
		"up":   {"cp", "-r", "tree", "testhost:" + filepath.Join(dir, "up")},
		"down": {"cp", "-r", "testhost:" + filepath.Join(dir, "tree"), "down"},
		"sync": {"sync", "tree", "testhost:" + filepath.Join(dir, "synced")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onScreen(t, 100, command(t, dir, append(args, "-F", server.ConfigFile,
				"-l", "4000")...)) // a minute
			s.await(`tree +\d+ of 3000 files +[1-4]?\d% .* of 30\.0 MB .*[kM]B/s +\d\d:\d\d left`)
			s.typed("\x03")
			if code := s.End(); code != 130 {
				t.Errorf("exit code %d: %q", code, &s.shown)
			}
		})
	}
}
