//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// sshd's Subsystem line, and OpenSSH's client.
func TestServeStdio(t *testing.T) {
	usftp, err := exec.LookPath("usftp")
	if err != nil {
		t.Fatal(err)
	}
	start := func(flags string) (sftp func(commands string) (string, error), dir string) {
		t.Helper()
		dir = t.TempDir()
		sshd := opensshd.Start(t, opensshd.Options{Config: []string{"Subsystem sftp " + usftp +
			" serve --stdio " + strings.ReplaceAll(flags, "DIR", dir)}})
		return func(commands string) (string, error) {
			t.Helper()
			cmd := exec.Command(opensshd.Find(t, "sftp"), "-F", sshd.ConfigFile, "-b", "-",
				"testhost")
			cmd.Dir = dir
			cmd.Stdin = strings.NewReader(commands)
			out, err := cmd.CombinedOutput()
			return string(out), err
		}, dir
	}
	data := randomData(2_000_003)
	sftp, dir := start("-d DIR -u 077 -P setstat,fsetstat -f AUTH -l INFO")
	writeFile(t, filepath.Join(dir, "a"), data)
	if out, err := sftp("put a b\nget b c\npwd\n"); err != nil ||
		!strings.Contains(out, "directory: "+dir+"\n") {
		t.Errorf("%v\n%s", err, out)
	}
	same(t, data, filepath.Join(dir, "b"), filepath.Join(dir, "c"))
	if info, err := os.Stat(filepath.Join(dir, "b")); err != nil || info.Mode() != 0o600 {
		t.Errorf("with -u 077 a file gets the mode %v, %v", info.Mode(), err)
	}
	if out, err := sftp("chmod 644 b\n"); err == nil {
		t.Errorf("what -P refuses works:\n%s", out)
	}

	sftp, dir = start("-R -d DIR")
	writeFile(t, filepath.Join(dir, "a"), data)
	if out, err := sftp("get a b\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := sftp("put a c\n"); err == nil {
		t.Errorf("with -R a file is written:\n%s", out)
	}

	sftp, dir = start("-p realpath,stat,lstat -d DIR")
	writeFile(t, filepath.Join(dir, "a"), data)
	if out, err := sftp("pwd\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := sftp("get a b\n"); err == nil {
		t.Errorf("what -p does not allow works:\n%s", out)
	}
}

// The log of --stdio goes nowhere unless it is asked for. (sshd drops what a subsystem says there,
// so this is without it.)
func TestServeStdioLog(t *testing.T) {
	for flags, want := range map[string]int{"": 0, " -e": 0, " -e -l INFO": 1, " -e -v": 1,
		" -e -l quiet": 0} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "a"), []byte("a"))
		cmd := exec.Command(opensshd.Find(t, "sftp"), "-b", "-", "-D", "usftp serve --stdio"+flags)
		cmd.Dir = dir
		cmd.Stdin = strings.NewReader("get a b\n")
		out, err := cmd.CombinedOutput()
		if got := strings.Count(string(out), `msg="file closed"`); err != nil || got != want {
			t.Errorf("with%s: %v, %d lines of the log, want %d:\n%s", flags, err, got, want, out)
		}
	}
}
