//go:build linux

package servers_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/cmd/usftp/internal/cli"
	"github.com/usftp/usftp/internal/endpoint/endpointtest"
	"github.com/usftp/usftp/internal/testenv"
)

// The test binary is also the command, if started as "usftp", which is in PATH for the tests, and
// another one, "mapnew".
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"usftp":  func() { os.Exit(cli.Main(os.Args[1:])) },
		"mapnew": mapNew,
	})
}

// mapped is the size of a file that is mapped into memory.
const mapped = 1 << 16

// mapNew makes a file as databases and linkers do: it maps one that it has only made long, and
// writes at both ends. It is a program of its own, since Go's scheduler waits for memory, and a
// server that the test plays would not run.
func mapNew() {
	f, err := os.OpenFile(os.Args[1], os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = f.Truncate(mapped)
	}
	var data []byte
	if err == nil {
		data, err = unix.Mmap(int(f.Fd()), 0, mapped, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED)
	}
	if err == nil {
		copy(data, "begin")
		copy(data[mapped-5:], "ended")
		err = errors.Join(unix.Msync(data, unix.MS_SYNC), unix.Munmap(data), f.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tests runs the tests; none of this concerns the command that the test binary also is.
type tests struct{ *testing.M }

func (t tests) Run() int {
	flag.Set("test.parallel", "6") // they mostly wait for logins
	return testenv.InMemory(t.M)
}

// A step is one of the things that are done on each host.
type step struct {
	*testing.T
	host  *host
	id    string // of its directories
	local string // its directory here
	stdin string
	disk  endpointtest.Disk
	limit *limit // what the server cannot do of it
	// limits are all that the server has.
	limits []limit
	// said is whether the limit was met, and said so.
	said bool
}

// An ended step has met a limit, and cannot go on.
type ended struct{}

// tooLong is when a command that does not end is killed.
const tooLong = 2 * time.Minute

// An outcome is the result of running the command.
type outcome struct {
	code           int
	stdout, stderr string
}

// name returns the name of a file in the step's directory for [step.disk].
func (s *step) name(n string) string { return path.Join(s.id, n) }

// dir returns the step's directory as the server knows it.
func (s *step) dir() string { return path.Join(s.host.dir, s.id) }

// far returns the operand for a file in the step's directory on the host.
func (s *step) far(n string) string { return "far:" + path.Join(s.dir(), n) }

func (s *step) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// here makes a file in the local directory, with the directories above it. It is an old one.
func (s *step) here(name, data string) {
	s.Helper()
	name = filepath.Join(s.local, name)
	s.must(os.MkdirAll(filepath.Dir(name), 0o755))
	s.must(os.WriteFile(name, []byte(data), 0o644))
	s.must(os.Chtimes(name, when, when))
}

// put makes a file on the host, with the directories above it. It is an old one: of a file that has
// just been written, more is read again.
func (s *step) put(name, data string) {
	s.Helper()
	for at := strings.Index(name, "/"); at > 0; {
		s.putDir(name[:at])
		next := strings.Index(name[at+1:], "/")
		if next < 0 {
			break
		}
		at += 1 + next
	}
	s.disk.Write(s.name(name), data)
	if s.host.real != "" {
		s.must(os.Chtimes(filepath.Join(s.host.real, s.name(name)), when, when))
	}
}

func (s *step) putDir(name string) {
	if s.disk.State(s.name(name)) == "" {
		s.disk.Mkdir(s.name(name))
	}
}

func (s *step) putTree(dir string) {
	s.Helper()
	s.putFiles(under(dir, tree))
}

func (s *step) putFiles(files map[string]string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text, is := strings.CutPrefix(files[name], "-> "); is {
			s.disk.Symlink(text, s.name(name))
		} else if files[name] == isDir {
			s.putDir(name)
		} else {
			s.put(name, files[name])
		}
	}
}

func (s *step) hereTree(dir string) {
	s.Helper()
	s.hereFiles(under(dir, tree))
}

func (s *step) hereFiles(files map[string]string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data := files[name]
		if text, is := strings.CutPrefix(data, "-> "); is {
			s.must(os.Symlink(text, filepath.Join(s.local, name)))
		} else if data == isDir {
			s.must(os.MkdirAll(filepath.Join(s.local, name), 0o755))
		} else {
			s.here(name, data)
		}
	}
}

// there checks that the host has these files in the step's directory, and nothing else.
func (s *step) there(want map[string]string) {
	s.Helper()
	s.same("on the host", want, s.disk, s.id)
}

// got checks the same of the local directory.
func (s *step) got(want map[string]string) {
	s.Helper()
	s.same("here", want, endpointtest.Directory(s.T, s.local), ".")
}

func (s *step) same(where string, want map[string]string, disk endpointtest.Disk, dir string) {
	s.Helper()
	names := disk.Names(dir)
	if all := slices.Sorted(maps.Keys(want)); !slices.Equal(names, all) {
		s.wrong("%s are %q, not %q", where, names, all)
	}
	for name, data := range want {
		state := "= " + data
		if data == isDir {
			state = "dir"
		} else if strings.HasPrefix(data, "-> ") {
			state = data
		}
		is := disk.State(path.Join(dir, name))
		if text, link := strings.CutPrefix(is, "-> /"); link && strings.HasPrefix(data, "-> ") &&
			"/"+text == path.Join(s.host.dir, dir, path.Dir(name), data[3:]) {
			continue // it leads to the right place, with another text
		}
		if is != state {
			s.wrong("%s, %s is %.20q (%d bytes), not %.20q (%d)", where, name, is, len(is), state,
				len(state))
		}
	}
}

// thereAttrs checks a file's permissions and time, if given. If the command has said that the host
// does not set them, they may be anything.
func (s *step) thereAttrs(name string, mode fs.FileMode, mtime time.Time) {
	s.Helper()
	hasMode, hasTime := s.disk.Attrs(s.name(name))
	if !s.said && (mode != 0 && mode != hasMode ||
		!mtime.IsZero() && mtime.Unix() != hasTime.Unix()) {
		s.wrong("%s has %v, %v, not %v, %v", name, hasMode, hasTime, mode, mtime)
	}
}

// wrong reports a wrong result, unless the server is known to say that it has done what it has not.
func (s *step) wrong(format string, args ...any) {
	s.Helper()
	if s.limit != nil && s.limit.says == "" {
		s.said = true
		return
	}
	s.Errorf(format, args...)
}

// command returns the command, not yet started.
func (s *step) command(verb string, args ...string) *exec.Cmd {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), tooLong)
	s.Cleanup(cancel)
	if verb != "umount" {
		args = append([]string{"--config", s.host.config}, args...)
	}
	cmd := exec.CommandContext(ctx, "usftp", append([]string{verb}, args...)...)
	cmd.WaitDelay = time.Minute
	cmd.Dir = s.local
	cmd.Env = append(os.Environ(), "HOME="+s.host.home, "XDG_STATE_HOME="+s.host.home,
		"SSH_AUTH_SOCK=", "SSH_ASKPASS=")
	cmd.Stdin = strings.NewReader(s.stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
	return cmd
}

// run runs the command, whatever becomes of it.
func (s *step) run(verb string, args ...string) outcome {
	s.Helper()
	cmd := s.command(verb, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// usftp runs the command, which must succeed and warn of nothing twice, and returns its output.
// Copies warn of nothing but the server's limits, and of links that lead to the same file in other
// words. Where a limit concerns the step, the command may also fail with one line about it, which
// ends the step.
func (s *step) usftp(verb string, args ...string) string {
	s.Helper()
	o := s.run(verb, args...)
	s.refusal(o)
	warnings := slices.Sorted(strings.Lines(o.stderr))
	if o.code != 0 || len(slices.Compact(slices.Clone(warnings))) < len(warnings) {
		s.Fatalf("usftp %s %s ended with %d: %s", verb, strings.Join(args, " "), o.code, o.stderr)
	}
	for _, line := range warnings {
		if (verb == "cp" || verb == "sync") &&
			!strings.Contains(line, "relative symbolic links become absolute") &&
			!slices.ContainsFunc(s.limits, func(l limit) bool {
				return l.says != "" && regexp.MustCompile(l.says).MatchString(line)
			}) {
			s.Errorf("usftp %s %s says %s", verb, strings.Join(args, " "), line)
		}
	}
	return o.stdout
}

// refusal notes that a limit was met, and ends the step where the command has failed. Each file
// that the server cannot deal with has one line that says so, and there is no other error.
func (s *step) refusal(o outcome) {
	if s.limit == nil || s.limit.says == "" {
		return
	}
	met := false
	for line := range strings.Lines(o.stderr) {
		if strings.HasPrefix(line, "usftp: ") {
			if met = regexp.MustCompile(s.limit.says).MatchString(line); !met && o.code != 0 {
				return
			}
		}
	}
	if met {
		s.said = true
		if o.code != 0 {
			s.Logf("as expected: %s", strings.TrimSpace(o.stderr))
			panic(ended{})
		}
	}
}

// oneLine reports whether a message is one line.
func oneLine(stderr string) bool {
	return strings.Count(stderr, "\n") == 1 && strings.HasPrefix(stderr, "usftp: ")
}
