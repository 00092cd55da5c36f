//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A host without SFTP, as small devices are: cp names -O, which works.
func TestHostWithoutSFTP(t *testing.T) {
	t.Parallel()
	for name, subsystem := range map[string]string{"no subsystem": "# no Subsystem sftp",
		"no program": "Subsystem sftp /nonexistent/sftp-server"} {
		t.Run(name, func(t *testing.T) {
			sshd := opensshd.Start(t, opensshd.Options{Config: []string{subsystem}})
			dir, remote := t.TempDir(), filepath.Join(t.TempDir(), "x")
			writeFile(t, remote, []byte("one"))
			run(t, dir, "cp", "-F", sshd.ConfigFile, "testhost:"+remote, ".").says(t, ui.ExitNoHost,
				"testhost: .*SFTP.*`usftp cp -O` copies without .*")
			if got := run(t, dir, "cp", "-O", "-F", sshd.ConfigFile, "testhost:"+remote,
				"."); got.code != 0 {
				t.Errorf("%+v", got)
			}
			if got := string(readFile(t, filepath.Join(dir, "x"))); got != "one" {
				t.Errorf("it has %q", got)
			}
		})
	}
}

// What a host says in place of scp's protocol, or sends without having been asked, is an error, and
// nothing is written.
func TestHostileSCP(t *testing.T) {
	t.Parallel()
	for force, sentence := range map[string]string{
		`printf 'C0644 2 .bashrc\nhi\0'`: `cannot copy testhost:x to \.: the host does not speak scp's ` +
			`protocol: it sent "\.bashrc" instead of what was asked for`,
		`printf 'C0644 2 ../x\nhi\0'`: `cannot copy testhost:x to \.: .* it sent "\.\./x" instead .*`,
		`printf 'D0755 0 x\n'`:        `cannot copy testhost:x to \.: .* it sent a directory, which .*`,
		`echo Welcome`: `cannot copy testhost:x to \.: .* it sent "Welcome" \(a start-up file there ` +
			`must print nothing\)`,
		`nonexistent`:            `cannot copy testhost:x to \.: the host has no scp \(.*nonexistent.*\)`,
		`exit 0`:                 `cannot copy testhost:x to \.: scp on the host ended too early`,
		`printf 'C0644 9 x\nhi'`: `cannot copy testhost:x to x: scp on the host ended too early`,
	} {
		t.Run(force, func(t *testing.T) {
			sshd := opensshd.Start(t, opensshd.Options{Config: []string{"ForceCommand " + force}})
			dir := t.TempDir()
			run(t, dir, "cp", "-O", "-F", sshd.ConfigFile, "testhost:x", ".").says(t, ui.ExitFailed,
				sentence)
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("there is %v, %v", left, err)
			}
		})
	}
}

// An scp that dies between two files of a pattern has not sent everything, whatever it has sent.
func TestSCPDiesBetweenFiles(t *testing.T) {
	t.Parallel()
	for _, death := range []string{"exit 3", "kill -9 $$"} {
		sshd := opensshd.Start(t, opensshd.Options{Config: []string{
			`ForceCommand printf 'C0644 2 x1\nhi\0'; head -c 3 >/dev/null; ` + death}})
		for _, how := range []string{"-q", "--ssh"} {
			dir := t.TempDir()
			got := run(t, dir, "cp", "-O", how, "-F", sshd.ConfigFile, "testhost:x*", ".")
			if got.code == 0 || !strings.Contains(got.stderr, `cannot copy testhost:x* to .: `) {
				t.Errorf("%s, %s: %+v", death, how, got)
			}
			if x := string(readFile(t, filepath.Join(dir, "x1"))); x != "hi" {
				t.Errorf("%s, %s: what was complete has %q", death, how, x)
			}
		}
	}
}

// Ctrl-C ends a copy; what was there stays, and nothing else does.
func TestOldSCPInterrupted(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	dir, far := t.TempDir(), filepath.Join(t.TempDir(), "big")
	writeFile(t, far, randomData(16<<20))
	writeFile(t, filepath.Join(dir, "big"), []byte("old"))
	cmd := command(t, dir, "cp", "-O", "-F", sshd.ConfigFile, "--json", "-l", "20000",
		"testhost:"+far, ".")
	events, stderr := started(t, cmd)
	until(t, events, "progress", 1<<20)
	cmd.Process.Signal(syscall.SIGINT)
	if last := until(t, events, "exit", 0); last.Code != 130 {
		t.Errorf("the last event has the code %d", last.Code)
	}
	cmd.Wait()
	want := regexp.MustCompile(`^usftp: cannot copy testhost:\S+/big to big: interrupted\n$`)
	if !want.MatchString(stderr.String()) || cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("exit code %d, and it says %q", cmd.ProcessState.ExitCode(), stderr)
	}
	left, err := os.ReadDir(dir)
	got := string(readFile(t, filepath.Join(dir, "big")))
	if err != nil || len(left) != 1 || got != "old" {
		t.Errorf("there is %v, with %.20q, %v", left, got, err)
	}
}
