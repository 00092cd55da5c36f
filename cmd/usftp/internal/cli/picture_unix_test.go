//go:build unix

package cli

import (
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

var update = flag.Bool("update", false, "draw the picture in README.md again")

// TestPictureInReadme: the picture in README.md is what a terminal shows, except for the numbers,
// which differ from run to run.
func TestPictureInReadme(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{Alias: "host"})
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "photos", "2026"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "photos", "2026", "waves.mp4"), randomData(32_000_000))
	for i := range 30 {
		writeFile(t, filepath.Join(dir, "photos", "2026", fmt.Sprint(i, ".jpg")), randomData(40_000))
	}
	target := "host:" + filepath.Join(dir, "backup")
	s := onScreen(t, 80, command(t, dir, "cp", "-r", "--limit", "8MB", "-F", server.ConfigFile,
		"photos", target))
	s.await(`photos +30 of 31 files +[6-9]\d% .* 00:0\d left\r\n  2026/waves\.mp4\r\n`)
	lines := s.picture()
	lines = lines[:len(lines)-1] // the cursor's
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d: %q", code, &s.shown)
	}
	drawn := svg(append([]string{"$ usftp cp -r --limit 8MB photos host:backup"}, lines...))
	const name = "../../../../docs/progress.svg"
	if *update {
		writeFile(t, name, []byte(drawn))
	}
	numbers := regexp.MustCompile(` *[\d.]+ ?`)
	plain := func(text string) string { return numbers.ReplaceAllString(text, " 0 ") }
	if kept := string(readFile(t, name)); plain(kept) != plain(drawn) {
		t.Errorf("docs/progress.svg is not what the screen shows; -update draws it again:\n%s",
			drawn)
	}
}

// svg draws a terminal with these lines.
func svg(lines []string) string {
	var b strings.Builder
	height := 20*len(lines) + 16
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="720" height="%d" `+
		`viewBox="0 0 720 %d" font-family="monospace" font-size="14" fill="#dddddd">`+"\n",
		height, height)
	fmt.Fprintf(&b, `<rect width="720" height="%d" rx="8" fill="#222222"/>`+"\n", height)
	for i, line := range lines {
		fmt.Fprintf(&b, `<text x="16" y="%d" xml:space="preserve">%s</text>`+"\n", 26+20*i,
			html.EscapeString(line))
	}
	return b.String() + "</svg>\n"
}
