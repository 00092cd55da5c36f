package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// says fails unless a run ended with a code and exactly one sentence, which must match.
func (o outcome) says(t *testing.T, code int, sentence string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d", o.code, code)
	}
	if !regexp.MustCompile(`^usftp: ` + sentence + `\n$`).MatchString(o.stderr) {
		t.Errorf("it says:\n%swant a match for:\nusftp: %s", o.stderr, sentence)
	}
	if found := jargon.FindString(o.stderr); found != "" {
		t.Errorf("it says %q to a person:\n%s", found, o.stderr)
	}
}

// jargon matches how Go's packages speak to programmers.
var jargon = regexp.MustCompile(
	`(^usftp|: )(open|l?stat|read|write|close|rename|mkdir|openat) \S+: |(dial|read|write) tcp|\b(ssh|sftp|transfer): |<nil>|\bEOF\b|%!|goroutine|context`)

// unchanged fails if a file has changed, or if its directory has other files.
func unchanged(t *testing.T, file, want string) {
	t.Helper()
	if got := string(readFile(t, file)); got != want {
		t.Errorf("the target has %d bytes, %.40q; it had %q", len(got), got, want)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("something is left beside the target: %v", entries)
	}
}

// listen runs a server that misbehaves in one way, and returns its port.
func listen(t *testing.T, serve func(net.Conn)) (port string) {
	t.Helper()
	return fmt.Sprint(testenv.Listen(t, serve).Port)
}

func TestHostsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("a"))
	closed := fmt.Sprint(testenv.RefusedPort(t))
	silent := listen(t, func(net.Conn) {})
	hangsUp := listen(t, func(c net.Conn) { c.Close() })
	mail := listen(t, func(c net.Conn) {
		io.WriteString(c, "220 mail.example ESMTP\x1b[31m\r\n")
	})
	for _, c := range []struct {
		name, args, sentence string
	}{
		{"does not resolve", "a nowhere.invalid:",
			`nowhere\.invalid: the name nowhere\.invalid does not resolve`},
		{"refuses", "-P " + closed + " a 127.0.0.1:",
			`127\.0\.0\.1: the connection to 127\.0\.0\.1:\d+ was refused`},
		{"has no such address", "-6 a 127.0.0.1:",
			`127\.0\.0\.1: 127\.0\.0\.1 has no address of the family that was asked for \(AddressFamily\)`},
		{"transport is missing", "-S /none/ssh a 127.0.0.1:",
			`127\.0\.0\.1: /none/ssh could not be started: ` +
				`(no such file or directory|executable file not found in %PATH%)`},
		{"times out", "-P " + silent + " -o ConnectTimeout=1 a 127.0.0.1:",
			`127\.0\.0\.1: no answer within 1s while connecting`},
		{"hangs up", "-P " + hangsUp + " a 127.0.0.1:",
			`127\.0\.0\.1: the server closed the connection before it said anything.*`},
		{"is no SSH server", "-P " + mail + " a 127.0.0.1:",
			`127\.0\.0\.1: the server does not speak SSH; it said: "220 mail.example ESMTP.*`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"cp", "-F", "none"}, strings.Fields(c.args)...)
			run(t, dir, args...).says(t, ui.ExitNoHost, c.sentence)
		})
	}
}

// TestSyncOfAFile: rsync copies one file as well.
func TestSyncOfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "f"), []byte("x"))
	run(t, dir, "sync", "f", "d").says(t, ui.ExitFailed,
		"cannot copy f to d: the source is not a directory \\(`usftp cp` copies files\\)")
}

func TestMissingBatch(t *testing.T) {
	t.Parallel()
	run(t, t.TempDir(), "shell", "-b", "none", "h").says(t, ui.ExitFailed,
		"cannot read the batch none: .*")
}

// TestOtherToolsCommands: a command of another tool is what is wrong, and not the flags after it.
func TestOtherToolsCommands(t *testing.T) {
	t.Parallel()
	for args, sentence := range map[string]string{
		"rsync -avz a h:": `unknown command "rsync"; did you mean .usftp sync.\?`,
		"get -r h:a":      `unknown command "get"; .usftp cp. copies files`,
		"chgrp -R g h:a":  `unknown command "chgrp"; did you mean .usftp chown.\?`,
		"bogus --help":    `unknown command "bogus"; .usftp cp. copies files`,
		"-r a h:":         `unknown shorthand flag: 'r' in -r`,
	} {
		run(t, t.TempDir(), strings.Fields(args)...).says(t, ui.ExitUsage, sentence+
			"\nTry `usftp --help` for more information\\.")
	}
}

func TestLoginsThatFail(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("a"))
	wrong := opensshd.Keygen(t, filepath.Join(dir, "wrong"))
	noKnown := filepath.Join(dir, "no_known")
	writeFile(t, noKnown, nil)
	changed := filepath.Join(dir, "changed")
	pub := string(readFile(t, wrong+".pub"))
	writeFile(t, changed, fmt.Appendf(nil, "[%s]:%d %s", sshd.Host, sshd.Port, pub))
	conf := []string{"cp", "-F", sshd.ConfigFile}
	for _, c := range []struct {
		name     string
		args     []string
		sentence string
	}{
		{"wrong key", []string{"-o", "IdentityFile=" + wrong, "-o", "IdentitiesOnly=yes", "a",
			"testhost:"},
			`testhost: logging in as \S+ failed \(tried publickey with .*wrong.*; the server accepts publickey\)`},
		{"unknown host", []string{"-o", "UserKnownHostsFile=" + noKnown, "a", "testhost:"},
			`testhost: the host key of .* is not known: its ED25519 key SHA256:\S+ is in no known_hosts file, and there is nobody to ask; log in once with ssh .*`},
		{"what only ssh does", []string{"-o", "ProxyCommand=false", "-o", "ProxyUseFdpass=yes",
			"a", "testhost:"},
			`testhost: the ssh configuration says ProxyUseFdpass yes, which is not supported here; use the system's ssh \(--ssh\)`},
		{"changed host key", []string{"-o", "UserKnownHostsFile=" + changed, "a", "testhost:"},
			`testhost: the host key of .* has changed: .*` + regexp.QuoteMeta(changed) +
				`:1 holds another; .*`},
		{"several files", []string{"-o", "UserKnownHostsFile=" + noKnown, "testhost:a",
			"testhost:b", "."},
			`testhost: the host key of .* is not known: .*`}, // said once
	} {
		t.Run(c.name, func(t *testing.T) {
			// The configuration's own identity comes after the one in -o, and would work.
			config := strings.ReplaceAll(string(readFile(t, sshd.ConfigFile)), "\tIdentityFile",
				"\t#")
			if c.name != "wrong key" {
				config = string(readFile(t, sshd.ConfigFile))
			}
			file := filepath.Join(t.TempDir(), "config")
			writeFile(t, file, []byte(config))
			run(t, dir, append([]string{conf[0], "-F", file}, c.args...)...).says(t, ui.ExitNoHost,
				c.sentence)
		})
	}
}

// If a login script prints text, or the account has no SFTP, that text is what helps.
func TestShellOutputInsteadOfSFTP(t *testing.T) {
	t.Parallel()
	server := opensshd.Find(t, "sftp-server")
	for _, c := range []struct {
		name, force, sentence string
	}{
		{"only text", "echo This account is closed.",
			`testhost: the server does not speak SFTP; it said: "This account is closed.\\n"`},
		{"text, then SFTP", "echo Welcome; exec " + server,
			`testhost: the server does not speak SFTP; it said: "Welcome\\n.*"`},
		{"nothing", "exit 0", `testhost: .*the server .*`},
	} {
		t.Run(c.name, func(t *testing.T) {
			sshd := opensshd.Start(t, opensshd.Options{Config: []string{"ForceCommand " + c.force}})
			dir := t.TempDir()
			run(t, dir, "cp", "-F", sshd.ConfigFile, "testhost:x", ".").says(t, ui.ExitNoHost,
				c.sentence)
		})
	}
}

func TestFilesThatCannotBeCopied(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	for _, c := range []struct {
		name string
		// R is the remote directory, with "old", "dir" and "dir/sub/"; L is the local directory,
		// with "new".
		args     string
		sentence string
	}{
		{"remote source is missing", "testhost:R/none L/x",
			`cannot copy testhost:R/none to L/x: no such file`},
		{"local source is missing", "L/none testhost:R/x",
			`cannot copy L/none to testhost:R/x: no such file or directory`},
		{"remote source is a directory", "testhost:R/dir L/x",
			`cannot copy testhost:R/dir to L/x: is a directory \(-r copies directories\)`},
		{"local source is a directory", "L testhost:R/x",
			`cannot copy L to testhost:R/x: is a directory \(-r copies directories\)`},
		{"remote directory is missing", "L/new testhost:R/none/x",
			`cannot copy L/new to testhost:R/none/x: the directory testhost:R/none does not exist \(mkdir -p makes it\)`},
		{"local directory is missing", "testhost:R/dir/file L/none/x",
			`cannot copy testhost:R/dir/file to L/none/x: the directory L/none does not exist \(mkdir -p makes it\)`},
		{"remote tree's parent is missing", "-r L testhost:R/none/x",
			`cannot copy L to testhost:R/none/x: the directory testhost:R/none does not exist \(mkdir -p makes it\)`},
		{"local tree's parent is missing", "-r testhost:R/dir L/none/x",
			`cannot copy testhost:R/dir to L/none/x: the directory L/none does not exist \(mkdir -p makes it\)`},
		{"remote file as a directory", "L/new testhost:R/dir/file/",
			`cannot copy L/new to testhost:R/dir/file/: cannot write R/dir/file: not a directory`},
		{"remote tree in a file's place", "-r L/sub testhost:R/dir/file/",
			`cannot copy L/sub to testhost:R/dir/file/: cannot write R/dir/file: not a directory`},
		{"remote tree over a file", "-r L testhost:R/dir/file",
			`cannot copy L to testhost:R/dir/file: the target is not a directory`},
		{"local tree over a file", "-r testhost:R/dir L/new",
			`cannot copy testhost:R/dir to L/new: the target is not a directory`},
		{"remote tree below a file", "-r L/sub testhost:R/dir/file/x",
			`cannot copy L/sub to testhost:R/dir/file/x: cannot write R/dir/file: not a directory`},
		{"remote file as a directory on the way", "L/new testhost:R/dir/file/x",
			`cannot copy L/new to testhost:R/dir/file/x: cannot write R/dir/file: not a directory`},
		{"remote target's place is a directory", "L/sub testhost:R/dir",
			`cannot copy L/sub to testhost:R/dir/sub: is a directory`},
	} {
		t.Run(c.name, func(t *testing.T) {
			remote, local := t.TempDir(), t.TempDir()
			os.MkdirAll(filepath.Join(remote, "dir", "sub"), 0o755)
			writeFile(t, filepath.Join(remote, "dir", "file"), []byte("file"))
			writeFile(t, filepath.Join(local, "new"), []byte("new"))
			writeFile(t, filepath.Join(local, "sub"), []byte("sub"))
			place := strings.NewReplacer("R/", remote+"/", "L/", local+"/", "L ", local+" ").Replace
			got := run(t, local, append([]string{"cp", "-F", sshd.ConfigFile},
				strings.Fields(place(c.args))...)...)
			got.says(t, ui.ExitFailed, place(c.sentence))
			if _, err := os.Stat(filepath.Join(local, "x")); err == nil {
				t.Error("a target was made all the same")
			}
		})
	}
}

// mountTmpfs mounts an empty file system, which needs privileges.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "none",
		dir).CombinedOutput(); err != nil {
		testenv.Unavailable(t, "mounting a file system: "+string(out))
	}
	t.Cleanup(func() {
		// Lazily: programs that other tests start have the open files of this process for a moment.
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	data := randomData(3 << 20)
	for _, c := range []struct{ name, sentence string }{
		{"here", `cannot copy testhost:.*/big to .*/target: .*no space left on this machine`},
		{"there", `cannot copy .*/big to testhost:.*/target: no space left on testhost \(0 bytes free\)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			full, dir := mountTmpfs(t, "size=1m"), t.TempDir()
			big, target := filepath.Join(dir, "big"), filepath.Join(full, "target")
			writeFile(t, big, data)
			writeFile(t, target, []byte("old"))
			from, to := "testhost:"+big, target
			if c.name == "there" {
				from, to = big, "testhost:"+target
			}
			run(t, dir, "cp", "-F", sshd.ConfigFile, from, to).says(t, ui.ExitFailed, c.sentence)
			unchanged(t, target, "old")
		})
	}
}

// OpenSSH has no status code for a read-only file system, but its statvfs tells.
func TestReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	dir, far := t.TempDir(), mountTmpfs(t, "ro")
	writeFile(t, filepath.Join(dir, "a"), nil)
	for _, args := range [][]string{nil, {"--inplace"}, {"--atomic"}, {"-r"}, {"-r", "."}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			source := "a"
			if len(args) > 1 {
				source, args = args[1], args[:1]
			}
			args = append([]string{"cp", "-F", sshd.ConfigFile}, args...)
			run(t, dir, append(args, source, "testhost:"+filepath.Join(far, "b"))...).says(t,
				ui.ExitFailed,
				`cannot copy (a|\.) to testhost:.*/b: the file system on testhost is read-only`)
		})
	}
}

// A link that breaks again and again does not stop a copy that keeps retrying: the file arrives,
// with no more than one message for each break.
func TestConnectionLostAgainAndAgain(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	data := randomData(40 << 20)
	for _, way := range []string{"download", "upload"} {
		t.Run(way, func(t *testing.T) {
			c := newBigCopy(t, data, way == "upload")
			// A source that was written just now would be read twice.
			before := time.Now().Add(-time.Hour)
			if err := os.Chtimes(c.big, before, before); err != nil {
				t.Fatal(err)
			}
			got := run(t, c.dir, append(append([]string{"cp"}, overBadLink(t, sshd, 16<<20)...),
				c.from, c.to)...)
			if got.code != 0 || !strings.Contains(got.stderr, "usftp: testhost: connection lost; reconnecting in ") {
				t.Errorf("exit code %d: %s", got.code, got.stderr)
			}
			if !bytes.Equal(readFile(t, c.target), data) {
				t.Error("the copy differs")
			}
			left, _ := filepath.Glob(filepath.Join(filepath.Dir(c.target), ".*usftp*"))
			if len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// A link breaks in the middle: what has arrived stays, under a name that the message gives, and the
// target is unchanged.
func TestConnectionLostMidway(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	data := randomData(64 << 20)
	for _, c := range []struct{ name, sentence string }{
		{"download", `cannot copy testhost:.*/big to .*/target: .*; (\d+) bytes of it are left in ([^\s;]+); the same command with --resume continues from there`},
		{"upload", `cannot copy .*/big to testhost:.*/target: .*; (\d+) bytes of it are left in testhost:([^\s;]+); the same command with --resume continues from there`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBigCopy(t, data, c.name == "upload")
			// All connections together must not be enough: a slow copy tries several.
			got := run(t, b.dir, append(append([]string{"cp", "--retries=0"},
				overBadLink(t, sshd, 4<<20)...), b.from, b.to)...)
			got.says(t, ui.ExitNoHost, c.sentence+
				`\nusftp: [0-9.]+ MB kept for --resume; to continue: usftp cp --resume --retries=0 -F .*big.*target`)
			if old := string(readFile(t, b.target)); old != "old" {
				t.Errorf("the target has changed: %.40q", old)
			}
			left(t, got.stderr, c.sentence, data)
		})
	}
}

// bigCopy is a copy to or from a host of a file that takes time, over an older target.
type bigCopy struct {
	dir, big, target string
	from, to         string // the operands
}

func newBigCopy(t *testing.T, data []byte, upload bool) bigCopy {
	t.Helper()
	dir := t.TempDir()
	c := bigCopy{dir: dir, big: filepath.Join(dir, "big"),
		target: filepath.Join(t.TempDir(), "target")}
	writeFile(t, c.big, data)
	writeFile(t, c.target, []byte("old"))
	if c.from, c.to = "testhost:"+c.big, c.target; upload {
		c.from, c.to = c.big, "testhost:"+c.target
	}
	return c
}

// overBadLink returns flags that lead to the host over a link that cuts each connection after that
// many bytes.
func overBadLink(t *testing.T, sshd *opensshd.Server, after int64) (flags []string) {
	port := listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", sshd.Addr())
		if err != nil {
			t.Error(err)
			return
		}
		pass(client, server, after)
	})
	return []string{"-F", sshd.ConfigFile, "-o", "Port=" + port, "-o",
		fmt.Sprintf("HostKeyAlias=[%s]:%d", sshd.Host, sshd.Port)}
}

// left checks what a message says is left: that many bytes of the source, from its beginning.
func left(t *testing.T, message, sentence string, data []byte) {
	t.Helper()
	m := regexp.MustCompile(sentence + `\n`).FindStringSubmatch(message)
	if m == nil {
		t.Fatalf("it says %q, which is no match for %q", message, sentence)
	}
	var n int
	fmt.Sscan(m[1], &n)
	kept := readFile(t, m[2])
	if n == 0 || len(kept) < n || string(kept[:n]) != string(data[:n]) {
		t.Errorf("%d bytes are said to be left; %d are, and they are not all the source's", n,
			len(kept))
	}
}

// pass carries bytes both ways, and cuts the connection after most bytes in one direction.
func pass(a, b net.Conn, most int64) {
	done := make(chan struct{}, 2)
	carry := func(to, from net.Conn) {
		io.CopyN(to, from, most)
		done <- struct{}{}
	}
	go carry(a, b)
	go carry(b, a)
	<-done
	a.Close()
	b.Close()
	<-done
}

func TestOddTargets(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	data := randomData(1 << 20)
	big := filepath.Join(dir, "big")
	writeFile(t, big, data)
	cp := func(t *testing.T, args ...string) outcome {
		t.Helper()
		return run(t, dir, append([]string{"cp", "-F", sshd.ConfigFile}, args...)...)
	}
	good := func(t *testing.T, o outcome) {
		t.Helper()
		if o.code != 0 {
			t.Errorf("exit code %d: %s", o.code, o.stderr)
		}
	}
	t.Run("devices", func(t *testing.T) {
		cp(t, "testhost:/dev/zero", filepath.Join(t.TempDir(), "zeros")).says(t, ui.ExitFailed,
			`cannot copy testhost:/dev/zero to .*: not a regular file but a character device`)
		good(t, cp(t, "testhost:"+big, "/dev/null"))
		good(t, cp(t, big, "testhost:/dev/null"))
		if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&os.ModeCharDevice == 0 {
			t.Fatalf("/dev/null has been replaced: %v, %v", info, err)
		}
		cp(t, "--atomic", "testhost:"+big, "/dev/null").says(t, ui.ExitFailed,
			`cannot copy testhost:.* to /dev/null: not a regular file with one name, and can only be written in place`)
		cp(t, "--atomic", big, "testhost:/dev/null").says(t, ui.ExitFailed,
			`cannot copy .* to testhost:/dev/null: not a regular file with one name, and can only be written in place`)
	})
	t.Run("links", func(t *testing.T) {
		for _, way := range []string{"up", "down"} {
			far := t.TempDir()
			writeFile(t, filepath.Join(far, "real"), []byte("old"))
			link := filepath.Join(far, "link")
			if err := os.Symlink("real", link); err != nil {
				t.Fatal(err)
			}
			if way == "up" {
				good(t, cp(t, big, "testhost:"+link))
			} else {
				good(t, cp(t, "testhost:"+big, link))
			}
			if to, err := os.Readlink(link); err != nil || to != "real" {
				t.Errorf("%s: the link is gone: %q, %v", way, to, err)
			}
			if string(readFile(t, filepath.Join(far, "real"))) != string(data) {
				t.Errorf("%s: the file that the link leads to is not the new one", way)
			}
		}
	})
	t.Run("local file with two names", func(t *testing.T) {
		far := t.TempDir()
		one, two := filepath.Join(far, "one"), filepath.Join(far, "two")
		writeFile(t, one, []byte("old"))
		if err := os.Link(one, two); err != nil {
			t.Fatal(err)
		}
		got := cp(t, "testhost:"+big, one)
		got.says(t, ui.ExitOK, `.*/one: the target has other names \(hard links\): it is written in place`)
		if string(readFile(t, two)) != string(data) {
			t.Error("the other name has another content now")
		}
	})
	t.Run("directory that takes no new name", func(t *testing.T) {
		for _, way := range []string{"up", "down"} {
			far := t.TempDir()
			target := filepath.Join(far, "target")
			writeFile(t, target, []byte("old"))
			closed, open := exec.Command("chmod", "555", far), exec.Command("chmod", "755", far)
			if os.Getuid() == 0 { // permissions do not apply to root
				closed, open = exec.Command("chattr", "+i", far), exec.Command("chattr", "-i", far)
			}
			if out, err := closed.CombinedOutput(); err != nil {
				testenv.Unavailable(t, "a file system with immutable directories: "+string(out))
			}
			defer open.Run()
			args := []string{big, "testhost:" + target}
			if way == "down" {
				args = []string{"testhost:" + big, target}
			}
			if got := cp(t, append(args, "--atomic")...); got.code != ui.ExitFailed {
				t.Errorf("%s: --atomic gives %v", way, got)
			}
			unchanged(t, target, "old")
			cp(t, args...).says(t, ui.ExitOK,
				`.*target: no temporary file can be created beside the target: it is written in place`)
			unchanged(t, target, string(data))
		}
	})
}
