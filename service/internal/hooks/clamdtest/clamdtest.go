// Package clamdtest runs ClamAV's daemon for tests.
package clamdtest

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// Virus is the only one that the daemon knows, and calls Usftp.Test.UNOFFICIAL.
const Virus = "USFTP-TEST-VIRUS"

// Start runs a clamd that takes streams of at most 1 MB, until the test ends, and returns the path
// of its socket.
func Start(t *testing.T) (socket string) {
	t.Helper()
	program := testenv.Program(t, "clamd")
	dir, err := os.MkdirTemp("", "cl") // short, as the path of a socket must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	for name, text := range map[string]string{
		"test.ndb": "Usftp.Test:0:*:" + hex.EncodeToString([]byte(Virus)) + "\n",
		"conf": fmt.Sprintf("LocalSocket %s\nDatabaseDirectory %s\nForeground yes\n"+
			"StreamMaxLength 1M\nLogFile %s/log\n", socket, dir, dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Serve(t, exec.Command(program, "-c", filepath.Join(dir, "conf")), "unix", socket)
	return socket
}
