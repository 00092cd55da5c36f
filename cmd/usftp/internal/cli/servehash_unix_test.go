//go:build unix

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
)

// Our own server hashes what it has stored, so nothing is read back. Lists of hashes are uploaded
// with a tree and checked when it is downloaded.
func TestServeHashes(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	dir := t.TempDir()
	for i := range 30 {
		name := filepath.Join(home, "tree", fmt.Sprint(i%3), fmt.Sprint(i))
		os.MkdirAll(filepath.Dir(name), 0o755)
		writeFile(t, name, randomData(i*20_000))
	}
	s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u", dir)
	usftp, err := exec.LookPath("usftp")
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"cp", "-rv", "-F", "none", "-P", s.Port, "-i", key, "-o",
		"UserKnownHostsFile=" + s.KnownHosts(), "--verify"}
	for _, hash := range []string{"sha256", "blake3"} {
		list := filepath.Join(home, hash)
		for _, way := range [][]string{{"--manifest", list, "tree", "u@127.0.0.1:" + hash},
			{"--check-manifest", list, "u@127.0.0.1:" + hash, hash + "-back"}} {
			said := s.Must("", usftp, append(append(flags, "--hash", hash), way...)...)
			if n := strings.Count(said, ", "+hash+":"); n != 30 {
				t.Errorf("%s: %d hashes were told:\n%s", hash, n, said)
			}
			if n := strings.Count(said, ", verified by the host's hash\n"); n != 30 {
				t.Errorf("%s: %d files were verified by hash:\n%s", hash, n, said)
			}
		}
		if lines := strings.Count(string(readFile(t, list)), "\n"); lines != 30 {
			t.Errorf("%s: the list has %d lines", hash, lines)
		}
		servetest.Same(t, randomData(29*20_000), filepath.Join(dir, hash, "2", "29"),
			filepath.Join(home, hash+"-back", "2", "29"))
	}
}
