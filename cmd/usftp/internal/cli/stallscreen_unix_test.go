//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestStallOnScreen: while a host sends nothing the screen says for how long, and when usftp
// reconnects. When the connection breaks there is a line about that, and one when there is another.
func TestStallOnScreen(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "source"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "source", "big"), randomData(4<<20))
	copies := make(map[*screen]*cutproxy.Proxy) // at once, as all mostly wait
	for _, args := range [][]string{{"source/big"}, {"-r", "source"}} {
		reach, proxy := cutLink(t, server)
		target := "testhost:" + filepath.Join(dir, fmt.Sprint("target", len(copies)))
		args = slices.Concat([]string{"cp", "-l", "10000"}, reach, args, []string{target})
		copies[onScreen(t, 80, command(t, dir, args...))] = proxy
	}
	for s, proxy := range copies {
		s.await(`\d+% +[1-9].* left`)
		proxy.Stall()
	}
	for s := range copies {
		s.await(`(big|source) .* stalled\r\n  stalled for [5-9] s; reconnecting in 5\d s\r\n`)
		s.await(`stalled for 1\d s; reconnecting in 4\d s\r\n`)
	}
	for s, proxy := range copies {
		proxy.Cut()
		proxy.Restore()
		s.await(`usftp: testhost: connection lost; reconnecting in \d\.\d s \(1 of 5\)\r\n`)
		s.await(`usftp: testhost: connected again\r\n`)
		s.await(`connected again(.*\r\n)*.* left`)
	}
	for s := range copies {
		if code := s.End(); code != 0 {
			t.Errorf("exit code %d: %q", code, &s.shown)
		}
		if picture := strings.Join(s.picture(), "\n"); strings.Contains(picture, "stalled") {
			t.Errorf("in the end it shows\n%s", picture)
		}
	}
}
