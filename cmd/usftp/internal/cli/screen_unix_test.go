//go:build unix

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A screen is a terminal in which the command runs.
type screen struct {
	t     *testing.T
	cmd   *exec.Cmd
	pty   *os.File
	shown bytes.Buffer
	bytes chan []byte // what will be shown
}

// onScreen starts the command on a terminal with this many columns. Its standard streams are the
// terminal unless they are set.
func onScreen(t *testing.T, columns uint16, cmd *exec.Cmd) *screen {
	t.Helper()
	// Standard error, descriptor 2, is the terminal: standard input may be something else.
	attrs := &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	p, err := pty.StartWithAttrs(cmd, &pty.Winsize{Rows: 24, Cols: columns}, attrs)
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, cmd: cmd, pty: p, bytes: make(chan []byte, 1000)}
	t.Cleanup(func() { p.Close() })
	go func() {
		defer close(s.bytes)
		for {
			buf := make([]byte, 4096)
			n, err := p.Read(buf)
			if n > 0 {
				s.bytes <- buf[:n]
			}
			if err != nil { // EIO when the last program that had the terminal open has ended
				return
			}
		}
	}()
	return s
}

// await waits until what is shown matches.
func (s *screen) await(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for !re.Match(s.shown.Bytes()) {
		b, ok := <-s.bytes
		if !ok {
			s.t.Fatalf("it has ended, and never showed %q, but:\n%q", pattern, &s.shown)
		}
		s.shown.Write(b)
	}
}

func (s *screen) typed(text string) { io.WriteString(s.pty, text) }

// End waits for the command and returns its exit code.
func (s *screen) End() int {
	for b := range s.bytes {
		s.shown.Write(b)
	}
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// lines returns the shown lines, without cursor movements.
func (s *screen) lines() []string {
	text := regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]").ReplaceAllString(s.shown.String(), "")
	text = strings.ReplaceAll(text, "\r", "")
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// picture returns the final contents of a terminal that obeys the sequences that the command sends,
// and no others.
func (s *screen) picture() (lines []string) {
	s.t.Helper()
	grid, row, column := [][]rune{nil}, 0, 0
	text := s.shown.String()
	for text != "" {
		if m := regexp.MustCompile(`^\x1b\[(\d*)([AJ])`).FindStringSubmatch(text); m != nil {
			n, _ := strconv.Atoi(m[1])
			if m[2] == "A" {
				row = max(0, row-max(1, n))
			} else {
				grid = grid[:row+1]
				grid[row] = grid[row][:min(column, len(grid[row]))]
			}
			text = text[len(m[0]):]
			continue
		}
		c, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch c {
		case '\x1b':
			s.t.Fatalf("an unknown sequence: %q", text[:min(10, len(text))])
		case '\r':
			column = 0
		case '\n':
			if row++; row == len(grid) {
				grid = append(grid, nil)
			}
		default:
			for len(grid[row]) <= column {
				grid[row] = append(grid[row], ' ')
			}
			grid[row][column] = c
			column++
		}
	}
	for _, line := range grid {
		lines = append(lines, string(line))
	}
	return lines
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	name := "a name that is rather long, with \x1b[31m in it"
	writeFile(t, filepath.Join(dir, name), randomData(4<<20))
	target := "testhost:" + filepath.Join(dir, "target")
	screens := make(map[uint16]*screen) // at once, as each mostly waits for its limit
	for _, columns := range []uint16{100, 60, 50, 30, 8, 0} {
		screens[columns] = onScreen(t, columns, command(t, dir, "cp", "-F", server.ConfigFile, "-l",
			"50000", name, target+fmt.Sprint(columns)))
	}
	for columns, s := range screens {
		t.Run(fmt.Sprint(columns, " columns"), func(t *testing.T) {
			s.t = t
			if columns == 100 {
				s.await(`a name .* +\d+%  .* of 4\.19 MB .*[kM]B/s +00:\d\d left`)
			}
			if code := s.End(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			width := columns
			if columns == 0 { // a terminal that does not know its size
				width = 80
				s.await(`a name .* 100% +4\.19 MB of 4\.19 MB`)
			}
			for _, line := range s.lines() {
				if n := len([]rune(line)); n >= int(width) {
					t.Errorf("a line of %d columns: %q", n, line)
				}
			}
			if strings.Contains(s.shown.String(), "\x1b[31m") {
				t.Error("the name's own escape sequence has reached the terminal")
			}
			last := s.lines()[len(s.lines())-1]
			if columns == 50 && !regexp.MustCompile(
				` 100% 4\.19 MB of 4\.19 MB .*[kM]B/s in 00:\d\d$`).MatchString(last) {
				t.Errorf("the last line is %q", last)
			}
			if columns == 100 && !regexp.MustCompile(
				`^a name that.*\\x1b\[31m.* 100% +4\.19 MB of 4\.19 MB .*[kM]B/s +in 00:\d\d$`).MatchString(last) {
				t.Errorf("in the end it shows %q", last)
			}
		})
	}
	for _, flag := range []string{"-q", "--no-progress", "--json"} {
		s := onScreen(t, 100, command(t, dir, "cp", "-F", server.ConfigFile, flag, name, target))
		if code := s.End(); code != 0 || strings.Contains(s.shown.String(), "%") {
			t.Errorf("with %s: exit code %d, and it shows %q", flag, code, &s.shown)
		}
	}
}

// TestPhaseOnScreen: once everything has arrived, the screen says what goes on.
func TestPhaseOnScreen(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "tree", "big"), randomData(1<<20))
	s := onScreen(t, 80, command(t, dir, "cp", "--verify", "-l", "8000", "-F", server.ConfigFile,
		"tree/big", "testhost:"+filepath.Join(dir, "file")))
	tree := onScreen(t, 100, command(t, dir, "cp", "-r", "--verify", "-l", "8000", "-F",
		server.ConfigFile, "tree", "testhost:"+filepath.Join(dir, "copy")))
	s.await(`big +100% +1\.05 MB of 1\.05 MB +verifying [1-9]\d%\r\n`)
	tree.await(`tree .* 100% +1\.05 MB of 1\.05 MB +verifying\r\n`)
	for _, s := range []*screen{s, tree} {
		if code := s.End(); code != 0 {
			t.Errorf("exit code %d: %q", code, &s.shown)
		}
	}
}

// copying shows a copy of a file "big", at 20 Mbit/s, that has begun.
func copying(t *testing.T, size int) *screen {
	t.Helper()
	server := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "big"), randomData(size))
	s := onScreen(t, 100, command(t, dir, "cp", "-F", server.ConfigFile, "-l", "20000", "big",
		"testhost:"+filepath.Join(dir, "target")))
	s.await(`\d+% +[1-9].* left`)
	return s
}

// A person types Ctrl-C on a terminal.
func TestCtrlC(t *testing.T) {
	t.Parallel()
	s := copying(t, 16<<20)
	s.typed("\x03")
	if code := s.End(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	s.await(`big .* stopped`)
	if lines := s.picture(); !slices.ContainsFunc(lines,
		regexp.MustCompile(`^big +\d+% .* stopped$`).MatchString) ||
		slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "^C") }) {
		t.Errorf("the screen shows:\n%s", strings.Join(lines, "\n"))
	}
	s.await(`usftp: cannot copy big to testhost:.*: interrupted; \d+ bytes of it are left in testhost:.*target`)
}

// What Ctrl-C leaves of a tree's files counts: the percentage does not fall, and what is kept is
// what the files at the target have, those of earlier runs too.
func TestCtrlCInTree(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	for _, name := range []string{"a", "b", "c", "d"} {
		writeFile(t, filepath.Join(dir, name), randomData(8<<20))
	}
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	earlier, then := randomData(200<<10), time.Unix(1e9, 0)
	for _, name := range []string{filepath.Join(dir, "e"), filepath.Join(target, "e")} {
		writeFile(t, name, earlier)
		if err := os.Chtimes(name, then, then); err != nil {
			t.Fatal(err)
		}
	}
	s := onScreen(t, 100, command(t, dir, "cp", "-rT", "--resume", "-F", server.ConfigFile, "-l",
		"40000", ".", "testhost:"+target))
	s.await(`[1-9] of 5 files +[1-9]\d% +[1-9].* left`)
	s.typed("\x03")
	if code := s.End(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	before, last := 0, ""
	for _, m := range regexp.MustCompile(` (\d+)% .*`).FindAllStringSubmatch(
		strings.Join(s.lines(), "\n"), -1) {
		percent, _ := strconv.Atoi(m[1])
		if last = m[0]; percent < before-2 {
			t.Errorf("from %d %% it falls to %q", before, last)
		}
		before = percent
	}
	if !strings.HasSuffix(last, "stopped") {
		t.Errorf("in the end it shows %q", last)
	}
	kept := int64(0)
	filepath.WalkDir(target, func(_ string, d os.DirEntry, _ error) error {
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			kept += info.Size()
		}
		return nil
	})
	said := fmt.Sprintf("usftp: %s kept for --resume; to continue: usftp cp -rT --resume",
		ui.Amount(float64(kept)))
	if !strings.Contains(s.shown.String(), said) {
		t.Errorf("it does not say %q:\n%s", said, strings.Join(s.picture(), "\n"))
	}
}

// stopped stops the command, as Ctrl-Z does. A shell has the terminal then, and has it echo.
func (s *screen) stopped() {
	s.t.Helper()
	var status unix.WaitStatus
	s.cmd.Process.Signal(unix.SIGSTOP)
	if _, err := unix.Wait4(s.cmd.Process.Pid, &status, unix.WUNTRACED, nil); err != nil ||
		!status.Stopped() {
		s.t.Fatalf("it did not stop: %v, %v", status, err)
	}
	s.termios(func(fd int, state *unix.Termios) error {
		state.Lflag |= unix.ECHO
		return unix.IoctlSetTermios(fd, ui.SetTermios, state)
	})
}

func (s *screen) continued() { s.cmd.Process.Signal(unix.SIGCONT) }

// What a shell has written while the command was stopped is not erased.
func TestCtrlZ(t *testing.T) {
	t.Parallel()
	s := copying(t, 8<<20)
	s.stopped()
	s.continued()
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d: %q", code, &s.shown)
	}
	drawn := strings.Count(s.shown.String(), "B/s")
	erased := strings.Count(s.shown.String(), "\x1b[1A")
	if drawn-erased != 2 {
		t.Errorf("the line was drawn %d times, and erased %d times: %q", drawn, erased, &s.shown)
	}
}

// The time for which a copy was stopped is no part of its rate.
func TestCtrlZIsAPause(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	const size = 8 << 20
	writeFile(t, filepath.Join(dir, "big"), randomData(size))
	s := onScreen(t, 120, command(t, dir, "cp", "-v", "-F", server.ConfigFile, "-l", "20000", "big",
		"testhost:"+filepath.Join(dir, "target")))
	s.await(`\d+% +[1-9].* left`)
	s.stopped()
	time.Sleep(4 * time.Second) // that is what is measured
	s.continued()
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d: %q", code, &s.shown)
	}
	said := regexp.MustCompile(`copied big to .*: 8\.39 MB in (\d+\.\d) s \((\d+\.\d) s of them ` +
		`paused\), (\d\.\d\d) MB/s, limited by --limit\r\n`).FindSubmatch(s.shown.Bytes())
	shown := regexp.MustCompile(`big +100% .* (\d\.\d\d) MB/s +in 00:(\d\d)\r\n`).
		FindSubmatch(s.shown.Bytes())
	if said == nil || shown == nil {
		t.Fatalf("it showed:\n%q", &s.shown)
	}
	number := func(b []byte) float64 {
		n, err := strconv.ParseFloat(string(b), 64)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	elapsed, paused, rate := number(said[1]), number(said[2]), number(said[3])
	// Others may have taken the processor, so the copy itself may have taken any time.
	if moved := rate * 1e6 * (elapsed - paused); paused < 3.9 || paused > elapsed-2 ||
		moved < 0.9*size || moved > 1.1*size ||
		number(shown[1]) != rate || math.Abs(number(shown[2])-elapsed) > 1 {
		t.Errorf("it said %q and showed %q", said[0], shown[0])
	}
}

// In the background nothing is drawn, since a person types to the shell.
func TestBackground(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "big"), randomData(1<<20))
	cmd := command(t, dir, "cp", "-F", server.ConfigFile, "-l", "20000", "big",
		"testhost:"+filepath.Join(dir, "target"))
	cmd.Args = append([]string{"sh", "-c", `set -m; "$@" & wait; echo ended`, "sh", cmd.Path},
		cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	s := onScreen(t, 100, cmd)
	s.await(`ended`)
	if code := s.End(); code != 0 || strings.Contains(s.shown.String(), "%") {
		t.Errorf("exit code %d, and it shows %q", code, &s.shown)
	}
	if size := len(readFile(t, filepath.Join(dir, "target"))); size != 1<<20 {
		t.Errorf("the copy has %d bytes", size)
	}
}

// A sync always resumes: it has no --resume, and its message does not name it.
func TestCtrlCInSync(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	writeFile(t, filepath.Join(dir, "big"), randomData(16<<20))
	s := onScreen(t, 100, command(t, dir, "sync", "-F", server.ConfigFile, "-l", "20000", ".",
		"testhost:"+target))
	s.await(`\d+% +[1-9].* left`)
	s.typed("\x03")
	if code := s.End(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	s.await(`bytes of it are left in testhost:.*target.*; the same command continues from there\r\n`)
}

const secret = "open sesame"

// passwordServer starts an SSH server that asks for a password, and returns the directory that it
// serves.
func passwordServer(t *testing.T) (dir, port string) {
	t.Helper()
	dir = t.TempDir()
	files, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	server, err := sshd.New(sshd.Config{Password: func(_ ssh.ConnMetadata,
		password string) (*sshd.Access, error) {
		if password != secret {
			return nil, errors.New("no")
		}
		return &sshd.Access{FS: files}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return dir, fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// echoes reports whether the terminal echoes what is typed.
func (s *screen) echoes() (echoes bool) {
	s.t.Helper()
	s.termios(func(_ int, state *unix.Termios) error {
		echoes = state.Lflag&unix.ECHO != 0
		return nil
	})
	return echoes
}

// termios calls do with the terminal's state.
func (s *screen) termios(do func(fd int, state *unix.Termios) error) {
	s.t.Helper()
	raw, err := s.pty.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) {
			var state *unix.Termios
			if state, err = unix.IoctlGetTermios(int(fd), ui.GetTermios); err == nil {
				err = do(int(fd), state)
			}
		})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Questions go to the terminal, even if standard input is the file to copy. A password is not
// shown.
func TestQuestions(t *testing.T) {
	t.Parallel()
	dir, port := passwordServer(t)
	known := filepath.Join(t.TempDir(), "known_hosts")
	args := []string{"cp", "-F", "none", "-P", port, "-o", "UserKnownHostsFile=" + known, "-",
		"me@127.0.0.1:got"}
	cmd := command(t, t.TempDir(), args...)
	cmd.Stdin = strings.NewReader("the file")
	s := onScreen(t, 80, cmd)
	s.await(`The authenticity of host '.*127.0.0.1.*' can't be established`)
	s.await(`\(yes/no/\[fingerprint\]\)\? $`)
	s.typed("perhaps\n")
	s.await(`Please type 'yes', 'no' or the fingerprint: $`)
	s.typed("yes\n")
	s.await(`usftp: Warning: Permanently added '\[127\.0\.0\.1\]:` + port +
		`' \(ED25519\) to the list of known hosts\.\r\n`)
	s.await(`(?i)password: $`)
	if s.echoes() { // by the time the question is seen, the echo must be off
		t.Error("the terminal shows what is typed at the question for a password")
	}
	s.typed("wrong\n")
	s.await(`(?is)password: .*Permission denied, please try again\..*password: $`)
	s.stopped()
	s.continued() // it asks again
	s.await(`(?is)please try again\..*password: .*password: $`)
	if s.echoes() {
		t.Error("after Ctrl-Z the terminal shows what is typed at the question for a password")
	}
	s.typed(secret + "\n")
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d: %q", code, &s.shown)
	}
	if strings.Contains(s.shown.String(), secret) || strings.Contains(s.shown.String(), "wrong") {
		t.Errorf("a password was shown: %q", &s.shown)
	}
	if got := string(readFile(t, filepath.Join(dir, "got"))); got != "the file" {
		t.Errorf("the file is %q", got)
	}
	if !bytes.Contains(readFile(t, known), []byte("127.0.0.1")) {
		t.Error("the host's key was not kept")
	}
	// With -B no question is asked. Ctrl-C at a question ends the program and restores the
	// terminal.
	s = onScreen(t, 80, command(t, t.TempDir(), append(args, "-B")...))
	if code := s.End(); code != ui.ExitNoHost ||
		strings.Contains(strings.ToLower(s.shown.String()), "password: ") {
		t.Errorf("with -B: exit code %d, and it shows %q", code, &s.shown)
	}
	s = onScreen(t, 80, command(t, t.TempDir(), args...))
	s.await(`(?i)password: $`)
	s.typed("\x03")
	if code := s.End(); code != 130 {
		t.Errorf("Ctrl-C at a question: exit code %d: %q", code, &s.shown)
	}
}

// After Ctrl-C at a password prompt the terminal echoes again.
func TestEchoComesBack(t *testing.T) {
	t.Parallel()
	_, port := passwordServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), tooLong)
	defer cancel()
	script := `usftp cp -F none -P ` + port +
		` -o UserKnownHostsFile=none -o StrictHostKeyChecking=no x me@127.0.0.1:; echo "code $?"; stty -a | grep -o -- '-\?\becho\b'`
	cmd := exec.CommandContext(ctx, "sh", "-c", "trap : INT; "+script)
	cmd.Dir, cmd.WaitDelay = t.TempDir(), time.Second
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "SSH_AUTH_SOCK=")
	s := onScreen(t, 80, cmd)
	s.await(`(?i)password: $`)
	s.typed("\x03")
	s.End()
	s.await(`code 130\r\n(.*\r\n)*echo\r\n`)
}
