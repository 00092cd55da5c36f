//go:build unix

package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestPatternSkipsPipes: a pattern that matches named pipes, sockets or links to them copies the
// files that it matches, and reports what it skips. Opening a pipe would wait forever.
func TestPatternSkipsPipes(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	far, near := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(far, "file"), []byte("data"))
	for _, err := range []error{syscall.Mkfifo(filepath.Join(far, "pipe"), 0o644),
		os.Symlink("pipe", filepath.Join(far, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := run(t, near, "cp", "-F", sshd.ConfigFile, "testhost:"+far+"/*", near)
	if got.code != ui.ExitOK {
		t.Fatalf("%+v", got)
	}
	for _, name := range []string{"pipe", "link"} {
		if !strings.Contains(got.stderr, filepath.Join(far, name)+": skipped: it is a named pipe") {
			t.Errorf("nothing is said of the %s: %q", name, got.stderr)
		}
		if _, err := os.Lstat(filepath.Join(near, name)); err == nil {
			t.Errorf("there is a %s", name)
		}
	}
	if data := readFile(t, filepath.Join(near, "file")); string(data) != "data" {
		t.Errorf("the file holds %q", data)
	}
	for _, args := range [][]string{
		{"cat", "--config", sshd.ConfigFile, "testhost:" + far + "/*"},
		{"head", "--config", sshd.ConfigFile, "testhost:" + far + "/*"},
		{"tail", "--config", sshd.ConfigFile, "testhost:" + far + "/*"},
	} {
		got := run(t, near, args...)
		if got.code != ui.ExitOK || got.stdout != "data" ||
			strings.Count(got.stderr, "skipped: it is a named pipe") != 2 {
			t.Errorf("%s: %+v", args[0], got)
		}
	}
	into := t.TempDir()
	batch := filepath.Join(into, "batch")
	writeFile(t, batch, []byte("get "+far+"/*\ncat "+far+"/*\n"))
	got = run(t, into, "shell", "-F", sshd.ConfigFile, "-b", batch, "testhost")
	if got.code != ui.ExitOK || strings.Count(got.stderr, "skipped: it is a named pipe") != 4 ||
		string(readFile(t, filepath.Join(into, "file"))) != "data" ||
		!strings.HasSuffix(got.stdout, "data") {
		t.Errorf("get and cat in the shell: %+v", got)
	}
}

// tail -f ends when the program that reads its output has, although nothing is added to the file.
func TestTailWithoutReader(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	name := filepath.Join(t.TempDir(), "file")
	writeFile(t, name, []byte("line\n"))
	cmd := command(t, t.TempDir(), "tail", "-f", "--config", sshd.ConfigFile, "testhost:"+name)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if cmd.Wait(); cmd.ProcessState.ExitCode() != ui.ExitOutputGone {
		t.Errorf("exit code %d", cmd.ProcessState.ExitCode())
	}
}
