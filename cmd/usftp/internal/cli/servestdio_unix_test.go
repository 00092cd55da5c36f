//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// With sshd's Subsystem line, and OpenSSH's client.
func TestServeStdio(t *testing.T) {
	t.Parallel()
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
	servetest.Same(t, data, filepath.Join(dir, "b"), filepath.Join(dir, "c"))
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

// asSftpServerProgram returns the command under the name sftp-server. It is not in PATH, where the
// tests look for sshd's own.
func asSftpServerProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "sftp-server")
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Under the name sftp-server the command replaces it where flags are not possible: scp -D passes
// operands, which are ignored.
func TestServeStdioAsSftpServer(t *testing.T) {
	t.Parallel()
	program := asSftpServerProgram(t)
	data := randomData(300_000)
	for name, args := range map[string][]string{
		"scp -D":   {opensshd.Find(t, "scp"), "-s", "-D", program, "a", "somewhere:DIR/b"},
		"operands": {opensshd.Find(t, "sftp"), "-D", "usftp serve --stdio -- host sftp", ":", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "a"), data)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "DIR", dir)
			}
			cmd := exec.Command(args[0], args[1:]...)
			if name == "operands" {
				cmd = exec.Command(args[0], "-b", "-", "-D", args[2])
			}
			cmd.Dir = dir
			cmd.Stdin = strings.NewReader("put a b\n")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			servetest.Same(t, data, filepath.Join(dir, "b"))
		})
	}
}

// sftp-server's flags, and its messages about wrong values.
func TestServeStdioFlags(t *testing.T) {
	t.Parallel()
	program := asSftpServerProgram(t)
	run := func(args ...string) (string, error) {
		cmd := exec.Command(program, args...)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("-Q", "requests")
	if want := strings.Join(server.Operations(), "\n") + "\n"; err != nil || out != want {
		t.Errorf("-Q requests: %v\n%s", err, out)
	}
	for _, name := range []string{"open", "posix-rename", "users-groups-by-id"} {
		if !strings.Contains(out, name+"\n") {
			t.Errorf("-Q requests does not have %s", name)
		}
	}
	for _, good := range []string{"-eR -l VERBOSE -f LOCAL7", "-f auth -u 077", "-l DEBUG3",
		"-P open,close -p read -d %d", "-l QUIET -d /%%/.. -e"} {
		cmd := exec.Command(program, strings.Fields(strings.ReplaceAll(good, "/%%/..",
			"/"))...)
		if out, err := cmd.CombinedOutput(); err != nil { // no message
			t.Errorf("%s: %v\n%s", good, err, out)
		}
	}
	for bad, says := range map[string]string{
		"-Q features": "must be requests", "-f MAIL": "facility", "-l LOUD": "quiet, error",
		"-u 9": "octal", "-P fly": "unknown request", "-x": "", "/srv": "takes no directory",
	} {
		if out, err := run(strings.Fields(bad)...); err == nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v\n%s", bad, err, out)
		}
	}
}

// --stdio logs nothing unless asked to. (sshd drops what a subsystem writes there, so this test
// runs without sshd.)
func TestServeStdioLog(t *testing.T) {
	t.Parallel()
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
