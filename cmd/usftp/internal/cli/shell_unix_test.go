//go:build unix

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// onShell starts a session on a terminal, in an empty local directory and in a directory on the
// host, and waits for the prompt.
func onShell(t *testing.T, server *opensshd.Server, remote string, args ...string) (s *screen,
	local string) {
	t.Helper()
	local = t.TempDir()
	args = append([]string{"shell", "-F", server.ConfigFile}, args...)
	cmd := command(t, local, append(args, "testhost:"+remote)...)
	cmd.Env = append(cmd.Env, "SHELL=/bin/sh", "TERM=xterm")
	s = onScreen(t, 100, cmd)
	s.await(`testhost:.*> $`)
	return s, local
}

// completes types the beginning of a line and presses Tab until it is completed, since the listing
// may not have arrived. A # shows that a Tab has been handled.
func (s *screen) completes(typed, completed string) {
	s.t.Helper()
	s.typed(typed)
	done := regexp.MustCompile(completed + `(\x1b\[\d+[GK])*#`)
	for from := s.shown.Len(); ; from = s.shown.Len() {
		s.typed("\t#")
		for !bytes.Contains(s.shown.Bytes()[from:], []byte("#")) {
			b, ok := <-s.bytes
			if !ok {
				s.t.Fatalf("it has ended: %q", &s.shown)
			}
			s.shown.Write(b)
		}
		s.typed("\x7f")
		if done.Match(s.shown.Bytes()[from:]) {
			return
		}
	}
}

// A person copies files, with completion and a history.
func TestShell(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	remote := t.TempDir()
	writeFile(t, filepath.Join(remote, "a long name.txt"), []byte("one"))
	writeFile(t, filepath.Join(remote, "other"), []byte("two"))
	if err := os.Mkdir(filepath.Join(remote, "directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, local := onShell(t, server, remote)
	s.typed("mkdi\x15")
	s.completes("get a", `get a\\ long\\ name\.txt `)
	s.typed("\r")
	s.await(`100%.*in 00:0\d`)
	s.await(`> $`)
	if got := string(readFile(t, filepath.Join(local, "a long name.txt"))); got != "one" {
		t.Errorf("it has %q", got)
	}
	s.completes("cd di", `cd directory/`)
	s.typed("\r")
	s.await(`directory> $`)
	s.typed("put 'a l\t\r")
	s.await(`(?s)put 'a long name\.txt' .*100%.*in 00:0\d.*> $`)
	if got := string(readFile(t, filepath.Join(remote, "directory",
		"a long name.txt"))); got != "one" {
		t.Errorf("it has %q", got)
	}
	s.typed("!echo $((6*7))\r")
	s.await(`\n42\s+.*> $`)
	s.typed("nonsense\x03")
	s.await(`nonsense\^C\s+.*> $`)
	s.typed("\x1b[A\x1b[A\r") // the command before the last one
	s.await(`(?s)nonsense.*put 'a long name\.txt' .*> $`)
	s.typed("\x12cho\x05\r") // the last one with "cho" in it
	s.await(`(?s)reverse-i-search.*\n42\s+.*> $`)
	s.typed("\x04")
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	home := ""
	for _, v := range s.cmd.Env {
		if strings.HasPrefix(v, "HOME=") {
			home = v[len("HOME="):]
		}
	}
	history := string(readFile(t, filepath.Join(home, ".local/state/usftp/shell_history")))
	if !regexp.MustCompile(`(?m)^cd directory/$`).MatchString(history) ||
		strings.Contains(history, "nonsense") {
		t.Errorf("the history is %q", history)
	}
}

// Ctrl-C ends a get, but neither the session nor its connection, whichever transport made it.
func TestShellCtrlC(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	for name, flags := range map[string][]string{"own": nil, "ssh": {"--ssh"}} {
		t.Run(name, func(t *testing.T) {
			remote := t.TempDir()
			writeFile(t, filepath.Join(remote, "big"), randomData(16<<20))
			s, local := onShell(t, server, remote, append(flags, "-l", "20000")...)
			s.typed("get big\r")
			s.await(`\d+% +[1-9].* left`)
			s.typed("\x03")
			s.await(`big .* stopped`)
			s.await(`bytes of it are left in \.big\S+; reget continues from there\r\n`)
			s.await(`testhost:.*> $`)
			s.typed("ls\r")
			s.await(`> ls\s+big\s+.*> $`)
			if _, err := os.Stat(filepath.Join(local, "big")); err == nil {
				t.Error("the file is there, although it was not complete")
			}
			s.typed("exit\r")
			if code := s.End(); code != 0 {
				t.Errorf("exit code %d: %q", code, &s.shown)
			}
		})
	}
}

// A lost connection is replaced, in the same directory, and copies continue.
func TestShellReconnects(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	remote := t.TempDir()
	dir := filepath.Join(remote, "directory")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	big := randomData(4 << 20)
	writeFile(t, filepath.Join(dir, "big"), big)
	proxy := cutproxy.Start(t, server.Addr())
	s, local := onShell(t, server, remote, "-P", strconv.Itoa(proxy.Port), "-l", "20000", "-o",
		"HostKeyAlias=["+server.Host+"]:"+strconv.Itoa(server.Port))
	s.typed("cd directory\r")
	s.await(`directory> $`)
	proxy.Cut()
	s.typed("ls\r")
	s.await(`(?s)usftp: .*connect.*\nbig\s.*directory> $`)
	s.typed("get big\r")
	s.await(`\d+% +[1-9].* left`)
	proxy.Cut()
	s.await(`in 00:\d\d\s`)
	s.await(`directory> $`)
	if got := readFile(t, filepath.Join(local, "big")); !bytes.Equal(got, big) {
		t.Error("the copy differs")
	}
	s.typed("pwd\rexit\r")
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.await(`Remote working directory: ` + regexp.QuoteMeta(dir) + `\s`)
}

// Questions are answered on their own line, Ctrl-C at one ends the command, and a local program
// gets its own Ctrl-C.
func TestShellAsks(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	remote := t.TempDir()
	for _, name := range []string{"one", "two"} {
		writeFile(t, filepath.Join(remote, name), []byte("this is "+name+"\n"))
	}
	s, _ := onShell(t, server, remote)
	s.typed("rm -i one\r")
	s.await(`remove .*one\? $`)
	s.typed("\x03")
	s.await(`\^C\s+.*> $`)
	s.typed("rm -i two\r")
	s.await(`remove .*two\? $`)
	s.typed("yes\r")
	s.await(`yes\s+.*> $`)
	if _, err := os.Stat(filepath.Join(remote, "two")); err == nil {
		t.Error("two is there after a yes")
	}
	if _, err := os.Stat(filepath.Join(remote, "one")); err != nil {
		t.Error(err)
	}
	s.typed("!echo begun; exec sleep 1000\r")
	s.await(`begun\s+$`)
	s.typed("\x03")
	s.await(`\^C\s+.*> $`)
	s.typed("tail -f one\r")
	s.await(`this is one\s+$`)
	s.typed("\x03")
	s.await(`\^C\s+.*testhost:.*> $`)
	s.typed("\x04")
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d: %q", code, &s.shown)
	}
}

// Typing never waits for the host, whether or not Tab was pressed. If there are several names, a
// second Tab lists them.
func TestShellTyping(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	remote := t.TempDir()
	sub := filepath.Join(remote, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alpha", "alphabet", "\x1b]0;evil\a", "\xff", "日本語"} {
		writeFile(t, filepath.Join(sub, name), nil)
	}
	proxy := cutproxy.Start(t, server.Addr())
	s, _ := onShell(t, server, remote, "-P", strconv.Itoa(proxy.Port), "-o",
		"HostKeyAlias=["+server.Host+"]:"+strconv.Itoa(server.Port))
	if s.echoes() {
		t.Error("the terminal shows what is typed, besides the editor")
	}
	s.typed("!stty -a; echo end\r")
	s.await(`[^-]icanon(?s:.*)[^-]echo (?s:.*)\send\s+.*> $`)
	proxy.Stall()
	s.typed("get sub/\ta\tl\t mine")
	s.await(`get sub/al mine`)
	s.typed("\x15")
	proxy.Restore()
	s.completes("get sub/a", `get sub/alpha`)
	s.typed("\t\t")
	s.await(`\nalpha +alphabet`)
	s.typed("\x15get sub/\t\tx")
	s.await(`\nalpha +alphabet +日本語`)
	s.await(`get sub/.*x`)
	s.typed("\x15")
	s.completes("ls sub/日", `ls sub/日本語 `)
	s.typed("\r")
	s.await(`\nsub/日本語\s+.*> $`)
	if strings.Contains(s.shown.String(), "\x1b]") {
		t.Errorf("the terminal was told something by a name: %q", &s.shown)
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.End(); code != 128+int(syscall.SIGTERM) || !s.echoes() {
		t.Errorf("exit code %d; the terminal echoes: %v", code, s.echoes())
	}
}

// On a terminal that cannot position its cursor, or that is too narrow, plain lines are read.
func TestShellPlainTerminal(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	for name, columns := range map[string]uint16{"dumb": 80, "xterm": 12} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t, t.TempDir(), "shell", "-q", "-F", server.ConfigFile, "testhost:"+
				t.TempDir())
			cmd.Env = append(cmd.Env, "SHELL=/bin/sh", "TERM="+name)
			s := onScreen(t, columns, cmd)
			s.await(`> $`)
			s.typed("nonsense\x03!echo $((6*7))\r")
			s.await(`\n42\s+.*> $`)
			s.typed("\x04")
			if code := s.End(); code != 0 || strings.Contains(s.shown.String(), "unknown") {
				t.Errorf("exit code %d: %q", code, &s.shown)
			}
		})
	}
}
