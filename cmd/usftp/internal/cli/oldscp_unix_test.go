//go:build unix

package cli

import (
	"fmt"
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

// TestSCPFailsSilently: an scp on the host that is killed between two files, or fails without a
// word, is an error, although the protocol has nothing that shows it.
func TestSCPFailsSilently(t *testing.T) {
	t.Parallel()
	const down = `printf 'C0644 2 a.log\nhi\0'; dd bs=1 count=3 status=none >/dev/null; `
	const up = `printf '\0\0\0'; cat >/dev/null; `
	for force, want := range map[string]struct {
		args     []string
		sentence string
	}{
		down + `exit 1`: {[]string{"testhost:*.log", "."},
			`cannot copy testhost:\*.log to \.: scp .* exit status 1, .* did not say why`},
		down + `kill -9 $$`: {[]string{"testhost:*.log", "."},
			`cannot copy testhost:\*.log to \.: scp .* failed with exit status 255, .*`},
		up + `echo no quota >&2; exit 3`: {[]string{"own", "testhost:x"},
			`cannot copy own to testhost:x: scp .* exit status 3, so files may be missing: no quota`},
		up + `kill -9 $$`: {[]string{"own", "testhost:x"},
			`cannot copy own to testhost:x: scp .* exit status 255, .*`},
	} {
		for _, ssh := range [][]string{nil, {"--ssh"}} {
			if ssh != nil && strings.Contains(force, "kill") {
				continue // then ssh ends as if it had failed itself
			}
			t.Run(fmt.Sprint(force, ssh), func(t *testing.T) {
				sshd := opensshd.Start(t, opensshd.Options{Config: []string{"ForceCommand " + force}})
				dir := t.TempDir()
				writeFile(t, filepath.Join(dir, "own"), []byte("own"))
				args := append([]string{"cp", "-O", "-F", sshd.ConfigFile}, ssh...)
				args = append(args, want.args...)
				run(t, dir, args...).says(t, ui.ExitFailed, want.sentence)
			})
		}
	}
}

// TestOldSCPCutOff: what arrived of a file that is cut off is dropped, and does not count as
// copied. What a host has of one is not dropped, but is said to be incomplete.
func TestOldSCPCutOff(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{Config: []string{`ForceCommand printf ` +
		`'D0755 0 x\nC0644 2 a\nhi\0C0644 9 b\nhello'; dd bs=1 count=5 status=none >/dev/null`}})
	got := run(t, t.TempDir(), "cp", "-O", "-r", "--json", "-F", sshd.ConfigFile, "testhost:x", ".")
	if !regexp.MustCompile(`"kind":"ended".*"bytes":2,`).MatchString(got.stdout) {
		t.Errorf("%+v", got)
	}
	up := opensshd.Start(t, opensshd.Options{Config: []string{
		`ForceCommand printf '\0\0'; dd bs=1 count=12 status=none >/dev/null`}})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "x"), []byte("hello"))
	run(t, dir, "cp", "-O", "-F", up.ConfigFile, "x", "testhost:x").says(t, ui.ExitFailed,
		"cannot copy x to testhost:x: scp on the host ended too early; what the host has of it is not complete")
}

// TestOldSCPThroughSSH: the system's ssh ends if the host does not answer, which the protocol does
// not show. What the user says about that counts first.
func TestOldSCPThroughSSH(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	writeFile(t, program, []byte("#!/bin/sh\necho \"$*\" >>args\n"))
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := run(t, dir, "cp", "-O", "--program", program, "-o", "ServerAliveInterval=7", "h:x",
		"."); got.code == 0 {
		t.Errorf("%+v", got)
	}
	args := string(readFile(t, filepath.Join(dir, "args")))
	want := regexp.MustCompile(`ServerAliveInterval=7 .*ServerAliveInterval=20 .*scp -f x`)
	if !want.MatchString(args) {
		t.Errorf("it is called with %s", args)
	}
}

// TestOldSCPLost: a connection that is lost costs the file that was being copied, and not those
// that follow.
func TestOldSCPLost(t *testing.T) {
	t.Parallel()
	dir, far := t.TempDir(), t.TempDir()
	lost := filepath.Join(far, "lost")
	sshd := opensshd.Start(t, opensshd.Options{Config: []string{fmt.Sprintf("ForceCommand "+
		"test -e %s && exec $SSH_ORIGINAL_COMMAND; touch %[1]s; kill -9 $PPID", lost)}})
	for _, name := range []string{"a", "b"} {
		writeFile(t, filepath.Join(far, name), []byte(name))
	}
	run(t, dir, "cp", "-O", "-F", sshd.ConfigFile, "testhost:"+filepath.Join(far, "a"),
		"testhost:"+filepath.Join(far, "b"), ".").says(t, ui.ExitNoHost,
		`cannot copy testhost:\S+/a to \.: testhost: .*`)
	if got := string(readFile(t, filepath.Join(dir, "b"))); got != "b" {
		t.Errorf("it has %q", got)
	}
}
