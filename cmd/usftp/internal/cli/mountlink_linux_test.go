package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
	"golang.org/x/sys/unix"
)

// mountOverProxy mounts a directory over a link that the test can break.
func mountOverProxy(t *testing.T, flags ...string) (*mounted, *cutproxy.Proxy) {
	t.Helper()
	needFUSE(t)
	// Frequent logins must not be turned away.
	sshd := opensshd.Start(t, opensshd.Options{Config: []string{"MaxStartups 1000"}})
	proxy := cutproxy.Start(t, sshd.Addr())
	args := []string{"-F", sshd.ConfigFile, "-o", fmt.Sprintf("HostKeyAlias=[%s]:%d", sshd.Host,
		sshd.Port),
		"-o", fmt.Sprintf("Port=%d", proxy.Port)}
	return mountHost(t, "testhost", append(args, flags...)...), proxy
}

// A mount in the background finds the files that flags and ssh_config name when it reconnects,
// although it is no longer in the directory where it was started.
func TestMountReconnectsFromAnywhere(t *testing.T) {
	t.Parallel()
	needFUSE(t)
	sshd := opensshd.Start(t, opensshd.Options{})
	proxy := cutproxy.Start(t, sshd.Addr())
	home := t.TempDir()
	config := strings.NewReplacer("IdentityFile "+sshd.IdentityFile, "", sshd.KnownHosts, "known").
		Replace(string(readFile(t, sshd.ConfigFile)))
	writeFile(t, filepath.Join(home, "config"), []byte(config))
	must(t, os.Symlink(sshd.IdentityFile, filepath.Join(home, "key")))
	must(t, os.Symlink(sshd.KnownHosts, filepath.Join(home, "known")))
	m := mountFrom(t, home, "testhost", "-F", "config", "-i", "key", "--timeout", "5s", "-o",
		fmt.Sprintf("HostKeyAlias=[%s]:%d", sshd.Host, sshd.Port), "-o",
		fmt.Sprintf("Port=%d", proxy.Port))
	proxy.Cut()
	must(t, os.WriteFile(m.path("file"), []byte("contents"), 0o600))
	if got := readFile(t, filepath.Join(m.far, "file")); string(got) != "contents" {
		t.Errorf("%q", got)
	}
}

// ownProcess runs a test in a process of its own, and reports whether this is that process. A
// program that is started first closes its copies of the files that are open in the process that
// starts it. On a mount whose link is down that takes as long as the mount waits, and so does every
// other test that starts a program.
func ownProcess(t *testing.T) bool {
	t.Helper()
	const marker = "USFTP_TEST_OWN_PROCESS"
	if os.Getenv(marker) != "" {
		return true
	}
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), marker+"=1")
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP: ")):
		t.Skipf("%s", out)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Errorf("the test has not run there:\n%s", out)
	default:
		t.Logf("%s", out)
	}
	return false
}

// within fails a call that takes longer than a mount may make it wait. A signal ends a call on a
// mount, and package os then makes it again, which waits anew: the signals that this process gets
// at any time, such as those of children of other tests that end, are left to other threads.
func within(t *testing.T, limit time.Duration, what string, call func() error) error {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var mask, old unix.Sigset_t
	for _, s := range []unix.Signal{unix.SIGCHLD, unix.SIGPROF, unix.SIGURG} {
		mask.Val[(s-1)/64] |= 1 << ((s - 1) % 64)
	}
	must(t, unix.PthreadSigmask(unix.SIG_BLOCK, &mask, &old))
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	began := time.Now()
	err := call()
	if took := time.Since(began); took > limit {
		t.Errorf("%s took %v", what, took)
	}
	return err
}

// A mount continues over a new connection when its own is cut: open files stay open, and written
// data arrives.
func TestMountCut(t *testing.T) {
	t.Parallel()
	if !ownProcess(t) {
		return
	}
	m, link := mountOverProxy(t)
	data := randomData(3_000_000)
	writeFile(t, m.path("source"), data)
	source, err := os.Open(m.path("source"))
	must(t, err)
	defer source.Close()
	target, err := os.Create(m.path("target"))
	must(t, err)
	log, err := os.OpenFile(m.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(t, err)
	piece := make([]byte, 300_000)
	var lines string
	for off := 0; off < len(data); off += len(piece) {
		if _, err := source.ReadAt(piece, int64(off)); err != nil {
			t.Fatalf("read at %d: %v", off, err)
		}
		link.Cut()
		if _, err := target.WriteAt(piece, int64(off)); err != nil {
			t.Fatalf("write at %d: %v", off, err)
		}
		line := fmt.Sprintf("line %d\n", off)
		lines += line
		if _, err := log.WriteString(line); err != nil {
			t.Fatal(err)
		}
		if off%900_000 == 0 {
			link.Cut()
			must(t, target.Sync())
			must(t, log.Sync())
		}
	}
	link.Cut()
	must(t, target.Close())
	must(t, log.Close())
	if !bytes.Equal(readFile(t, filepath.Join(m.far, "target")), data) {
		t.Error("another content has arrived")
	}
	if got := readFile(t, filepath.Join(m.far, "log")); string(got) != lines {
		t.Errorf("appended: %q", got)
	}
}

// Changes of names are carried out once, whether or not their answers were lost.
func TestMountCutNames(t *testing.T) {
	t.Parallel()
	m, link := mountOverProxy(t)
	for i := range soak.Pick(2, 10) {
		dir := m.path(fmt.Sprint(i))
		for _, step := range []func() error{
			func() error { return os.Mkdir(dir, 0o755) },
			func() error { return os.WriteFile(dir+"/a", []byte("x"), 0o644) },
			func() error { return os.Rename(dir+"/a", dir+"/b") },
			func() error { return os.Symlink("b", dir+"/l") },
			func() error { return os.Remove(dir + "/l") },
			func() error { return os.Remove(dir + "/b") },
			func() error { return os.Remove(dir) },
		} {
			go link.Cut()
			if err := step(); err != nil && !errors.Is(err, fs.ErrExist) { // a correct answer then
				t.Error(err)
			}
		}
	}
	if names, err := os.ReadDir(m.far); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// margin is how much later than it should a call may end on a busy machine.
const margin = 10 * time.Second

// While the link is down, calls wait for the timeout and then fail, a signal ends them at once, and
// unmounting works. When the link is back, so is the mount.
func TestMountStalled(t *testing.T) {
	t.Parallel()
	if !ownProcess(t) {
		return
	}
	const timeout, limit = 12 * time.Second, 12*time.Second + margin
	const soon = timeout / 2 // where a call would wait for the timeout
	m, link := mountOverProxy(t, "--timeout", timeout.String(), "--cache", "0")
	writeFile(t, m.path("file"), []byte("contents"))
	open, err := os.OpenFile(m.path("file"), os.O_RDWR, 0)
	must(t, err)
	defer open.Close()
	// Each in a directory of its own: the kernel lets changes of one directory wait for each other.
	for _, dir := range []string{"make", "remove", "list"} {
		must(t, os.Mkdir(m.path(dir), 0o755))
	}
	writeFile(t, m.path("remove/file"), nil)
	opened, err := os.Open(m.path("remove/file"))
	must(t, err)
	defer opened.Close()
	link.Stall()
	var calls sync.WaitGroup
	for what, call := range map[string]func() error{
		"stat":                func() error { _, err := os.Stat(m.path("file")); return err },
		"read":                func() error { _, err := open.ReadAt(make([]byte, 8), 1<<20); return err },
		"make":                func() error { return os.Mkdir(m.path("make/dir"), 0o755) },
		"list":                func() error { _, err := os.ReadDir(m.path("list")); return err },
		"remove an open file": func() error { return syscall.Unlink(m.path("remove/file")) },
	} {
		calls.Go(func() {
			if err := within(t, limit, what, call); !errors.Is(err, syscall.EIO) &&
				!errors.Is(err, syscall.ENOTCONN) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	calls.Wait()
	cat := exec.Command("cat", m.path("file"))
	must(t, cat.Start())
	testenv.Until(t, "the wait", func() bool { return waitsForFUSE(t, cat.Process.Pid) })
	began := time.Now()
	must(t, cat.Process.Signal(syscall.SIGINT))
	cat.Wait()
	if took := time.Since(began); took > soon {
		t.Errorf("Ctrl-C took %v", took)
	}
	// So it does in a program that handles it. A signal of another kind, before it, changes
	// nothing.
	sh := exec.Command("sh", "-c", "trap 'exit 7' INT; trap : USR1; while :; do true <"+m.path("file")+
		"; done")
	must(t, sh.Start())
	testenv.Until(t, "the wait", func() bool { return waitsForFUSE(t, sh.Process.Pid) })
	began = time.Now()
	must(t, sh.Process.Signal(syscall.SIGUSR1))
	must(t, sh.Process.Signal(syscall.SIGINT))
	sh.Wait()
	if took := time.Since(began); took > soon || sh.ProcessState.ExitCode() != 7 {
		t.Errorf("Ctrl-C that is handled took %v: %v", took, sh.ProcessState)
	}
	link.Restore()
	testenv.Until(t, "the mount's return", func() bool {
		_, err := os.Stat(m.path("file"))
		return err == nil
	})
	got := make([]byte, 8)
	if _, err := open.ReadAt(got, 0); err != nil || string(got) != "contents" {
		t.Errorf("%q, %v", got, err)
	}
	opened.Close()
	link.Stall()
	open.Close()
	if err := within(t, limit, "umount", func() error {
		return unmount(t, func() outcome { return run(t, "/", "umount", m.at) })
	}); err != nil {
		t.Error(err)
	}
	link.Restore()
}

// waitsForFUSE reports whether a process waits for a file system to answer.
func waitsForFUSE(t *testing.T, pid int) bool {
	t.Helper()
	stack, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
	return err == nil && strings.Contains(string(stack), "fuse") ||
		err == nil && strings.Contains(string(stack), "request_wait")
}

// Data that could not be written while the link was down is reported by the next call, once, and
// kept in a file that the log names. The file is usable again when the link is back. (Data that was
// on its way may have reached the host, or may reach it late.)
func TestMountRescue(t *testing.T) {
	t.Parallel()
	if !ownProcess(t) {
		return
	}
	const timeout = 12 * time.Second
	m, link := mountOverProxy(t, "--timeout", timeout.String())
	data := randomData(700_000)
	f, err := os.Create(m.path("file"))
	must(t, err)
	_, err = f.Write(data[:100])
	must(t, err)
	must(t, f.Sync())
	link.Stall()
	_, err = f.Write(data[100:])
	must(t, err)
	if within(t, timeout+margin, "fsync", f.Sync) == nil {
		t.Error("fsync says that it has arrived")
	}
	link.Restore()
	var kept string
	testenv.Until(t, "the rescue file", func() bool {
		for line := range strings.Lines(m.log(t)) {
			if _, name, found := strings.Cut(line, "kept="); found {
				kept = strings.TrimSpace(name)
			}
		}
		return kept != ""
	})
	if got := readFile(t, kept); len(got) != len(data) || !bytes.Equal(got[100:], data[100:]) {
		t.Errorf("%d bytes were kept, or others", len(got))
	}
	if text := readFile(t, kept+".ranges"); !strings.Contains(string(text), "testhost:") ||
		!strings.Contains(string(text), "100 ") {
		t.Errorf("%s", text)
	}
	testenv.Until(t, "the mount's return", func() bool {
		_, err := os.Stat(m.path("file"))
		return err == nil
	})
	if _, err := f.WriteAt([]byte("on"), 100); err != nil {
		t.Errorf("the file cannot be used any more: %v", err)
	}
	must(t, f.Close())
	if got := readFile(t, filepath.Join(m.far, "file")); !bytes.HasPrefix(got,
		append(data[:100:100], "on"...)) {
		t.Errorf("the host has %d bytes", len(got))
	}
}

// A program learns that the host's disk is full from the next write, from fsync or from close, and
// what the host has not taken is kept.
func TestMountFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testenv.Unavailable(t, "root, who may mount a small tmpfs")
	}
	m := mountFar(t)
	must(t, syscall.Mount("tmpfs", m.far, "tmpfs", 0, "size=3m"))
	t.Cleanup(func() { syscall.Unmount(m.far, syscall.MNT_DETACH) })
	data := randomData(5 << 20)
	f, err := os.Create(m.path("file"))
	must(t, err)
	defer f.Close()
	written := 0
	for err == nil && written < len(data) {
		var n int
		n, err = f.Write(data[written : written+128<<10])
		written += n
	}
	if err == nil {
		err = f.Sync()
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%d bytes are written: %v", written, err)
	}
	f.Sync() // what was under way may have failed since
	whole := make([]byte, written)
	copy(whole, readFile(t, filepath.Join(m.far, "file")))
	lists, err := filepath.Glob(filepath.Join(m.home, "usftp/rescue/*.ranges"))
	if err != nil || len(lists) != 1 {
		t.Fatalf("%d rescue files, %v", len(lists), err)
	}
	kept := readFile(t, strings.TrimSuffix(lists[0], ".ranges"))
	for line := range strings.Lines(string(readFile(t, lists[0]))) {
		var off, n int
		if _, err := fmt.Sscanf(line, "%d %d", &off, &n); err == nil {
			copy(whole[off:], kept[off:off+n])
		}
	}
	if !bytes.Equal(whole, data[:written]) {
		t.Error("something is neither on the host nor kept")
	}
	small, err := os.Create(m.path("small"))
	must(t, err)
	if _, err = small.WriteString("does not fit"); err == nil {
		err = small.Close()
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a small file: %v", err)
	}
}

// A program learns that the host's disk has no room for a further name.
func TestMountFullOfNames(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testenv.Unavailable(t, "root, who may mount a small tmpfs")
	}
	m := mountFar(t)
	must(t, syscall.Mount("tmpfs", m.far, "tmpfs", 0, "nr_inodes=2")) // one is the directory's
	t.Cleanup(func() { syscall.Unmount(m.far, syscall.MNT_DETACH) })
	writeFile(t, m.path("file"), nil)
	for name, call := range map[string]func(path string) error{
		"create":  func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"mkdir":   func(path string) error { return os.Mkdir(path, 0o755) },
		"symlink": func(path string) error { return os.Symlink("file", path) },
		"link":    func(path string) error { return os.Link(m.path("file"), path) },
	} {
		if err := call(m.path(name)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file that was replaced while the link was down is not taken for the one that was open.
func TestMountReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	if !ownProcess(t) {
		return
	}
	m, link := mountOverProxy(t)
	far := filepath.Join(m.far, "file")
	writeFile(t, far, []byte("the one that is open"))
	when := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(far, when, when))
	reader, err := os.Open(m.path("file"))
	must(t, err)
	defer reader.Close()
	writeFile(t, filepath.Join(m.far, "written"), []byte("0123456789"))
	writer, err := os.OpenFile(m.path("written"), os.O_RDWR, 0)
	must(t, err)
	defer writer.Close()
	_, err = writer.WriteAt([]byte("mine"), 3)
	must(t, err)
	must(t, writer.Sync())
	link.Stall()
	writeFile(t, far, []byte("another file of the name"))
	writeFile(t, filepath.Join(m.far, "written"), []byte("0123456789"))
	link.Cut()
	link.Restore()
	if _, err := reader.ReadAt(make([]byte, 5), 0); !errors.Is(err, syscall.ESTALE) {
		t.Errorf("read: %v", err)
	}
	_, err = writer.WriteAt([]byte("more"), 0)
	if err == nil {
		err = writer.Sync()
	}
	if !errors.Is(err, syscall.ESTALE) {
		t.Errorf("write: %v", err)
	}
	if got := readFile(t, filepath.Join(m.far, "written")); string(got) != "0123456789" {
		t.Errorf("another file was written to: %q", got)
	}
}

// What was on its way over a connection that has stalled does not arrive after a new connection has
// written something newer to the same place.
func TestMountLateData(t *testing.T) {
	t.Parallel()
	if !ownProcess(t) {
		return
	}
	m, link := mountOverProxy(t, "--timeout", "20s")
	f, err := os.Create(m.path("file"))
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("begun"), 0)
	must(t, err)
	must(t, f.Sync())
	before := link.Connections()
	release := link.Hold()
	_, err = f.WriteAt(bytes.Repeat([]byte("old "), 1000), 0)
	must(t, err)
	must(t, f.Sync())
	if link.Connections() == before {
		t.Error("the data has arrived over a link that is held")
	}
	newer := bytes.Repeat([]byte("new "), 1000)
	_, err = f.WriteAt(newer, 0)
	must(t, err)
	must(t, f.Close())
	release()
	if got := readFile(t, filepath.Join(m.far, "file")); !bytes.Equal(got, newer) {
		t.Errorf("the host has %d bytes, which begin with %q", len(got), got[:min(20, len(got))])
	}
}
