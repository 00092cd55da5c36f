//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestStallOnScreen: while a host sends nothing the screen says for how long, and when usftp
// reconnects. When the connection breaks there is a line about that, and one when there is another.
func TestStallOnScreen(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	for name, flags := range map[string][]string{"file": nil, "tree": {"-r"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "source"), 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, "source", "big"), randomData(8<<20))
			args := append([]string{"cp", "-l", "10000"}, flags...)
			reach, proxy := cutLink(t, server)
			source := "source"
			if name == "file" {
				source = "source/big"
			}
			s := onScreen(t, 80, command(t, dir, append(append(args, reach...), source,
				"testhost:"+filepath.Join(dir, "target"))...))
			s.await(`\d+% +[1-9].* left`)
			proxy.Stall()
			s.await(`(big|source) .* stalled\r\n  stalled for [5-9] s; reconnecting in 5\d s\r\n`)
			s.await(`stalled for 1\d s; reconnecting in 4\d s\r\n`)
			proxy.Cut()
			proxy.Restore()
			s.await(`usftp: testhost: connection lost; reconnecting in \d\.\d s \(1 of 5\)\r\n`)
			s.await(`usftp: testhost: connected again\r\n`)
			s.await(`connected again(.*\r\n)*.* left`)
			if code := s.End(); code != 0 {
				t.Errorf("exit code %d: %q", code, &s.shown)
			}
			if picture := strings.Join(s.picture(), "\n"); strings.Contains(picture, "stalled") {
				t.Errorf("in the end it shows\n%s", picture)
			}
		})
	}
}
