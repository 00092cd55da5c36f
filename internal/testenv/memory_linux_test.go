package testenv

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

type runs func() int

func (r runs) Run() int { return r() }

// TestInMemory: what tests have left in memory is gone when they have ended, also when they have
// been killed.
func TestInMemory(t *testing.T) {
	const variable = "USFTP_TEST_END"
	if end := os.Getenv(variable); end != "" {
		os.Exit(InMemory(runs(func() int {
			left := filepath.Join(os.TempDir(), "left")
			if err := os.WriteFile(left, []byte(end), 0o600); err != nil {
				t.Error(err)
			}
			os.Stdout.WriteString(left)
			if dir := t.TempDir(); !strings.HasPrefix(dir, filepath.Dir(left)) {
				os.Stderr.WriteString(dir + " is not in memory")
			}
			if end == "killed" {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return 1
		})))
	}
	if !roomInMemory() {
		Unavailable(t, "memory for files")
	}
	for _, end := range []string{"failed", "killed"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestInMemory$")
		cmd.Env = append(os.Environ(), "TMPDIR=", "GOTMPDIR=", variable+"="+end)
		// The shell that removes the files has it open, so Output waits for the shell as well.
		var said bytes.Buffer
		cmd.Stderr = &said
		left, err := cmd.Output()
		if err == nil || said.Len() > 0 || !strings.HasPrefix(string(left), sharedMemory+"/") {
			t.Errorf("%s: %v, %q, and the file was %q", end, err, said.Bytes(), left)
		}
		if _, err := os.Stat(filepath.Dir(string(left))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %s is there: %v", end, left, err)
		}
	}
}
