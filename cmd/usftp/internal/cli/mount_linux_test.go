package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// needFUSE skips a test if mounting is impossible, or fails if it is required.
func needFUSE(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		f.Close()
		_, err = exec.LookPath("fusermount3")
	}
	if err != nil {
		testenv.Unavailable(t, err)
	}
}

// A mounted directory.
type mounted struct {
	at, far string // the mount point, and what is mounted there
	home    string
}

// mountFar mounts a directory through its own server until the test ends.
func mountFar(t *testing.T, flags ...string) *mounted {
	t.Helper()
	return mountHost(t, "far", append([]string{"-D", opensshd.Find(t, "sftp-server")}, flags...)...)
}

// mountHost mounts a directory of a host.
func mountHost(t *testing.T, host string, flags ...string) *mounted {
	t.Helper()
	return mountFrom(t, t.TempDir(), host, flags...)
}

// mountFrom works like mountHost, in the home directory given.
func mountFrom(t *testing.T, home, host string, flags ...string) *mounted {
	t.Helper()
	needFUSE(t)
	m := &mounted{at: t.TempDir(), far: t.TempDir(), home: home}
	args := append([]string{"mount", "-v"}, flags...)
	cmd := command(t, m.home, append(args, host+":"+m.far, m.at)...)
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+m.home)
	if o := finish(t, cmd); o.code != 0 {
		t.Fatalf("%+v", o)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("fusermount3", "-uz", m.at).CombinedOutput(); err != nil &&
			isMounted(t, m.at) {
			t.Errorf("%v: %s", err, out)
		}
		if t.Failed() {
			t.Logf("the log:\n%s", m.log(t))
		}
	})
	return m
}

func (m *mounted) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.home, "usftp", "mount.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	return string(text)
}

// path returns a name below the mount point.
func (m *mounted) path(name string) string { return filepath.Join(m.at, name) }

// isMounted reports whether something is mounted at a directory.
func isMounted(t *testing.T, at string) bool {
	t.Helper()
	return mountLine(t, at) != ""
}

// mountLine returns what the kernel says of the mount at a directory, or "" if there is none.
func mountLine(t *testing.T, at string) string {
	t.Helper()
	for line := range strings.Lines(string(readFile(t, "/proc/self/mountinfo"))) {
		if strings.Contains(line, " "+at+" ") {
			return line
		}
	}
	return ""
}

// unmount runs a command that unmounts, again while the mount is busy: a program that another test
// starts has the open files of this process until it runs, and df looks at all mounts.
func unmount(t *testing.T, command func() outcome) error {
	t.Helper()
	var o outcome
	testenv.Until(t, "the end of the mount", func() bool {
		o = command()
		return !strings.Contains(o.stderr, "programs are using it") &&
			!strings.Contains(o.stderr, "busy")
	})
	if o.code != 0 {
		return fmt.Errorf("%+v", o)
	}
	return nil
}

// A directory that holds something is mounted over, and that is said.
func TestMountOverFiles(t *testing.T) {
	t.Parallel()
	needFUSE(t)
	at, home := t.TempDir(), t.TempDir()
	for _, full := range []bool{false, true} {
		if full {
			writeFile(t, filepath.Join(at, "file"), nil)
		}
		cmd := command(t, home, "mount", "-D", opensshd.Find(t, "sftp-server"), "far:"+home, at)
		cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+home)
		o := finish(t, cmd)
		if err := unmount(t, func() outcome { return run(t, home, "umount", at) }); err != nil {
			t.Error(err)
		}
		want := ""
		if full {
			want = "usftp: " + at + " is not empty: what is in it cannot be seen until it is unmounted\n"
		}
		if o.code != 0 || o.stderr != want {
			t.Errorf("full %t: exit code %d: %q", full, o.code, o.stderr)
		}
	}
}

// Package os works on a mount as on any file system.
func TestMountFiles(t *testing.T) {
	t.Parallel()
	m := mountFar(t)
	for name, test := range map[string]func(t *testing.T, dir string){
		"contents":               mountContents,
		"append":                 mountAppend,
		"exclusive":              mountExclusive,
		"truncate":               mountTruncate,
		"rename over an open":    mountRename,
		"remove an open":         mountRemoveOpen,
		"hard link":              mountHardLink,
		"symbolic link":          mountSymlink,
		"mode and times":         mountAttributes,
		"mapped memory":          mountMapped,
		"directories":            mountDirectories,
		"what cannot be had":     mountUnsupported,
		"holes and far offsets":  mountFarOffsets,
		"two handles":            mountTwoHandles,
		"written out of order":   mountOutOfOrder,
		"a descriptor is shared": mountShared,
		"locks":                  mountLocks,
	} {
		t.Run(name, func(t *testing.T) {
			dir := m.path(strings.ReplaceAll(name, " ", "-"))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			test(t, dir)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mountContents(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	for _, size := range []int{0, 1, 4096, 258048, 258049, 5_000_000} {
		data := randomData(size)
		writeFile(t, name, data)
		if got := readFile(t, name); !bytes.Equal(got, data) {
			t.Errorf("%d bytes are read as %d others", size, len(got))
		}
		if info, err := os.Stat(name); err != nil || info.Size() != int64(size) {
			t.Errorf("%v, %v", info, err)
		}
	}
}

func mountAppend(t *testing.T, dir string) {
	name := filepath.Join(dir, "log")
	writeFile(t, name, []byte("0"))
	first, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer first.Close()
	second, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer second.Close()
	for _, f := range []*os.File{first, second, first} {
		_, err := f.WriteString("x")
		must(t, err)
		must(t, f.Sync())
	}
	if got := readFile(t, name); string(got) != "0xxx" {
		t.Errorf("%q", got)
	}
}

func mountExclusive(t *testing.T, dir string) {
	name := filepath.Join(dir, "lock")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	must(t, err)
	must(t, f.Close())
	if _, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); !errors.Is(err,
		fs.ErrExist) {
		t.Error(err)
	}
	if _, err := os.Open(filepath.Join(dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func mountTruncate(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	writeFile(t, name, []byte("0123456789"))
	must(t, os.Truncate(name, 4))
	if got := readFile(t, name); string(got) != "0123" {
		t.Errorf("%q", got)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("abc"), 2)
	must(t, err)
	must(t, f.Truncate(7))
	must(t, f.Truncate(3))
	must(t, f.Truncate(6))
	if got := readFile(t, name); string(got) != "01a\x00\x00\x00" {
		t.Errorf("%q", got)
	}
}

func mountRename(t *testing.T, dir string) {
	old, target := filepath.Join(dir, "old"), filepath.Join(dir, "target")
	writeFile(t, target, []byte("before"))
	before, err := os.Open(target)
	must(t, err)
	defer before.Close()
	f, err := os.Create(old)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString("after")
	must(t, err)
	must(t, os.Rename(old, target))
	_, err = f.WriteString("wards")
	must(t, err)
	must(t, f.Sync())
	if got := readFile(t, target); string(got) != "afterwards" {
		t.Errorf("%q", got)
	}
	got := make([]byte, 10)
	if n, err := before.ReadAt(got, 0); string(got[:n]) != "before" {
		t.Errorf("the one that was replaced: %q, %v", got[:n], err)
	}
	if names := namesIn(t, dir); !slices.Equal(names, []string{"target"}) {
		t.Errorf("%q", names)
	}
	err = unix.Renameat2(unix.AT_FDCWD, target, unix.AT_FDCWD, old, unix.RENAME_NOREPLACE)
	must(t, err)
	writeFile(t, target, nil)
	err = unix.Renameat2(unix.AT_FDCWD, target, unix.AT_FDCWD, old, unix.RENAME_NOREPLACE)
	if !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func mountRemoveOpen(t *testing.T, dir string) {
	inner := filepath.Join(dir, "inner")
	must(t, os.Mkdir(inner, 0o755))
	name := filepath.Join(inner, "file")
	f, err := os.Create(name)
	must(t, err)
	_, err = f.WriteString("still here")
	must(t, err)
	must(t, os.Remove(name))
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if names := namesIn(t, inner); len(names) != 0 {
		t.Errorf("%q", names)
	}
	must(t, os.Remove(inner))
	got := make([]byte, 10)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != "still here" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != 10 {
		t.Errorf("%v, %v", info, err)
	}
	must(t, f.Close())
	testenv.Until(t, "the end of the hidden file", func() bool { return len(namesIn(t, dir)) == 0 })
}

func mountHardLink(t *testing.T, dir string) {
	name, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	writeFile(t, name, []byte("one"))
	must(t, os.Link(name, other))
	a, err := os.Stat(name)
	must(t, err)
	b, err := os.Stat(other)
	must(t, err)
	if !os.SameFile(a, b) || a.Sys().(*syscall.Stat_t).Nlink != 2 {
		t.Errorf("%+v, %+v", a.Sys(), b.Sys())
	}
	writeFile(t, other, []byte("two"))
	if got := readFile(t, name); string(got) != "two" {
		t.Errorf("%q", got)
	}
	must(t, os.Remove(name))
	if got := readFile(t, other); string(got) != "two" {
		t.Errorf("%q", got)
	}
}

func mountSymlink(t *testing.T, dir string) {
	link := filepath.Join(dir, "link")
	must(t, os.Symlink("target", link))
	if got, err := os.Readlink(link); err != nil || got != "target" {
		t.Errorf("%q, %v", got, err)
	}
	writeFile(t, link, []byte("through"))
	if got := readFile(t, filepath.Join(dir, "target")); string(got) != "through" {
		t.Errorf("%q", got)
	}
	if err := os.Symlink("target", link); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
}

func mountAttributes(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	var f *os.File
	var err error
	made := make(chan struct{})
	go func() {
		defer close(made)
		runtime.LockOSThread() // which ends with the goroutine
		// only of this thread: other tests make files, too
		if err = syscall.Unshare(syscall.CLONE_FS); err == nil {
			syscall.Umask(0)
			f, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		}
	}()
	<-made
	must(t, err)
	_, err = f.WriteString("x")
	must(t, err)
	written, err := f.Stat()
	must(t, err)
	must(t, f.Close())
	closed, err := os.Stat(name)
	must(t, err)
	if !closed.ModTime().Equal(written.ModTime()) {
		t.Errorf("a program saw %v, and then %v", written.ModTime(), closed.ModTime())
	}
	if closed.Mode() != 0o666 {
		t.Error(closed.Mode())
	}
	when := time.Unix(1234567890, 0)
	must(t, os.Chtimes(name, when, when))
	must(t, os.Chmod(name, 0o640))
	info, err := os.Stat(name)
	if err != nil || !info.ModTime().Equal(when) || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if f, err = os.OpenFile(name, os.O_RDWR, 0); err == nil {
		_, err = f.WriteString("y")
	}
	must(t, err)
	must(t, f.Close())
	if info, err := os.Stat(name); err != nil || time.Since(info.ModTime()).Abs() > time.Hour {
		t.Errorf("%v, %v", info, err)
	}
}

func mountMapped(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	data := randomData(300_000)
	writeFile(t, name, data)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	memory, err := unix.Mmap(int(f.Fd()), 0, len(data), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	must(t, err)
	if !bytes.Equal(memory, data) {
		t.Error("it is read otherwise")
	}
	copy(memory[100_000:], "written")
	copy(data[100_000:], "written")
	must(t, unix.Msync(memory, unix.MS_SYNC))
	must(t, unix.Munmap(memory))
	must(t, f.Close())
	if !bytes.Equal(readFile(t, name), data) {
		t.Error("it was not written")
	}
}

func mountDirectories(t *testing.T, dir string) {
	var want []string
	for i := range 300 {
		name := fmt.Sprintf("entry%03d", i)
		want = append(want, name)
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	if got := namesIn(t, dir); !slices.Equal(got, want) {
		t.Errorf("%d names", len(got))
	}
	writeFile(t, filepath.Join(dir, "entry007", "file"), nil)
	if err := os.Remove(filepath.Join(dir, "entry007")); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Error(err)
	}
	must(t, unix.Rename(filepath.Join(dir, "entry007"), filepath.Join(dir, "entry008")))
	if _, err := os.Stat(filepath.Join(dir, "entry008", "file")); err != nil {
		t.Error(err)
	}
	must(t, os.RemoveAll(dir))
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func mountUnsupported(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	writeFile(t, name, []byte("x"))
	if err := unix.Setxattr(name, "user.x", []byte("y"), 0); !errors.Is(err, unix.ENOTSUP) {
		t.Errorf("setxattr: %v", err)
	}
	if _, err := unix.Getxattr(name, "user.x", nil); !errors.Is(err, unix.ENOTSUP) {
		t.Errorf("getxattr: %v", err)
	}
	if _, err := unix.Listxattr(name, nil); !errors.Is(err, unix.ENOTSUP) {
		t.Errorf("listxattr: %v", err)
	}
	if err := unix.Removexattr(name, "user.x"); !errors.Is(err, unix.ENOTSUP) {
		t.Errorf("removexattr: %v", err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); !errors.Is(err, unix.EPERM) {
		t.Errorf("mkfifo: %v", err)
	}
	long := filepath.Join(dir, strings.Repeat("n", 256))
	if _, err := os.Create(long); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("a long name: %v", err)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil || stat.Blocks == 0 {
		t.Errorf("statfs: %+v, %v", stat, err)
	}
}

func mountFarOffsets(t *testing.T, dir string) {
	f, err := os.Create(filepath.Join(dir, "file"))
	must(t, err)
	defer f.Close()
	const far = 5 << 30
	_, err = f.WriteAt([]byte("far"), far)
	must(t, err)
	got := make([]byte, 8)
	if n, err := f.ReadAt(got, far-5); n != 8 || string(got) != "\x00\x00\x00\x00\x00far" {
		t.Errorf("%q, %v", got[:n], err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != far+3 {
		t.Errorf("%v, %v", info, err)
	}
}

func mountTwoHandles(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	writer, err := os.Create(name)
	must(t, err)
	defer writer.Close()
	reader, err := os.Open(name)
	must(t, err)
	defer reader.Close()
	for i, text := range []string{"one", "two", "three"} {
		_, err := writer.WriteAt([]byte(text), int64(i*100))
		must(t, err)
		got := make([]byte, len(text))
		if _, err := reader.ReadAt(got, int64(i*100)); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func mountOutOfOrder(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	data := randomData(3_000_000)
	f, err := os.Create(name)
	must(t, err)
	const piece = 70_001
	for off := len(data) / piece * piece; off >= 0; off -= piece {
		_, err := f.WriteAt(data[off:min(off+piece, len(data))], int64(off))
		must(t, err)
	}
	for off := 0; off < len(data); off += 500_000 { // again, over data that is on its way
		_, err := f.WriteAt([]byte("again"), int64(off))
		must(t, err)
		copy(data[off:], "again")
	}
	must(t, f.Close())
	if !bytes.Equal(readFile(t, name), data) {
		t.Error("it is read otherwise")
	}
}

// A shell's redirection is closed by each program that inherits it.
func mountShared(t *testing.T, dir string) {
	cmd := exec.Command("sh", "-c",
		"exec >log; echo a; sh -c 'echo b'; echo c; sh -c 'echo d'; echo e >>log; echo f")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := readFile(t, filepath.Join(dir, "log")); string(got) != "a\nb\nc\nd\nf\n" {
		t.Errorf("%q", got) // "f" goes where "e" was appended, as on any file system
	}
}

// Programs on this machine keep each other out.
func mountLocks(t *testing.T, dir string) {
	name := filepath.Join(dir, "file")
	writeFile(t, name, []byte("x"))
	first, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer first.Close()
	second, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer second.Close()
	must(t, unix.Flock(int(first.Fd()), unix.LOCK_EX))
	if err := unix.Flock(int(second.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err,
		unix.EWOULDBLOCK) {
		t.Errorf("flock: %v", err)
	}
	must(t, unix.Flock(int(first.Fd()), unix.LOCK_UN))
	must(t, unix.Flock(int(second.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	lock := unix.Flock_t{Type: unix.F_WRLCK, Len: 10}
	must(t, unix.FcntlFlock(first.Fd(), unix.F_OFD_SETLK, &lock))
	if err := unix.FcntlFlock(second.Fd(), unix.F_OFD_SETLK, &lock); !errors.Is(err,
		unix.EAGAIN) {
		t.Errorf("fcntl: %v", err)
	}
}

// Programs that people run on a mount.
func TestMountPrograms(t *testing.T) {
	t.Parallel()
	m := mountFar(t, "-o", "idmap=user")
	for name, test := range map[string]struct {
		program, script string
	}{
		"git": {"git", `
			export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
			git init -q origin; cd origin
			for i in $(seq 50); do mkdir d$i; echo $i >d$i/f; done
			git add .; git commit -qm one; git mv d1/f d2/g; git commit -qam two; git gc -q
			cd ..; git clone -q origin copy; cd copy
			git fsck --strict; [ -z "$(git status --porcelain)" ]
			echo more >>d3/f; [ "$(git status --porcelain)" = " M d3/f" ]; git commit -qam three; git push -q origin HEAD:x`},
		"make": {"make", `
			printf 'all: $(addprefix out,1 2 3 4 5 6 7 8)\n\tcat out* >all\nout%%: in%%\n\tsleep 0.01; cp $< $@\n' >Makefile
			for i in 1 2 3 4 5 6 7 8; do echo $i >in$i; done
			make -j4 -s; [ $(wc -l <all) = 8 ]; make -q out1 out8`},
		"tar": {"tar", `
			mkdir tree; for i in $(seq 40); do mkdir tree/$i; seq $i >tree/$i/f; ln -s f tree/$i/l; ln tree/$i/f tree/$i/h; done
			tar cf t.tar tree; mkdir x; tar xf t.tar -C x; tar df t.tar -C x; diff -r tree x/tree`},
		"sqlite": {"sqlite3", `
			sqlite3 db 'pragma journal_mode=delete; create table t(a,b); with recursive n(i) as (select 1 union all select i+1 from n where i<500) insert into t select i, hex(randomblob(50)) from n;' >/dev/null
			sqlite3 db 'begin; update t set b=a where a%2=0; commit; delete from t where a>400; vacuum;'
			[ "$(sqlite3 db 'pragma integrity_check; select count(*) from t')" = "$(printf 'ok\n400')" ]`},
		"vim": {"vim", `
			echo one >file; vim -Es -u NONE -c 's/one/two/' -c wq file; [ "$(cat file)" = two ]
			vim -Es -u NONE -c 'set backup writebackup' -c 's/two/three/' -c wq file; [ "$(cat file)" = three ]`},
		"rsync": {"rsync", `
			mkdir from; for i in $(seq 30); do seq $i >from/$i; done; touch -d '2001-02-03' from/7
			rsync -a from/ to/; rsync -a --checksum --itemize-changes from/ to/ >changes; [ ! -s changes ]
			echo more >>from/3; rsync -a --inplace from/ to/; diff -r from to`},
		"a program is run": {"sh", `
			printf '#!/bin/sh\necho ran\n' >script; chmod +x script; [ "$(./script)" = ran ]
			cp /bin/true there; ./there`},
		"cp": {"cp", `
			head -c 3000000 /dev/urandom >a; cp a b; cmp a b; cp --sparse=always a c; cmp a c; cp -a a d; cmp a d
			dd if=a of=e bs=7777 status=none; cmp a e; dd if=/dev/zero of=a bs=1 seek=1000 count=10 conv=notrunc status=none; ! cmp -s a b`},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Program(t, test.program)
			dir := m.path(strings.ReplaceAll(name, " ", "-"))
			must(t, os.Mkdir(dir, 0o755))
			cmd := exec.Command("sh", "-ec", test.script)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+m.home, "GIT_CONFIG_NOSYSTEM=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// Changes that others make on the host show after the cache time; contents show at once to programs
// that open the file.
func TestMountOthersChange(t *testing.T) {
	t.Parallel()
	m := mountFar(t, "--cache", "300ms")
	far := func(name string) string { return filepath.Join(m.far, name) }
	writeFile(t, far("file"), []byte("first"))
	if got := readFile(t, m.path("file")); string(got) != "first" {
		t.Errorf("%q", got)
	}
	writeFile(t, far("file"), []byte("other")) // of the same length, within the same second
	if got := readFile(t, m.path("file")); string(got) != "other" {
		t.Errorf("%q", got)
	}
	namesIn(t, m.at)
	writeFile(t, far("new"), nil)
	must(t, os.Remove(far("file")))
	testenv.Until(t, "the new name", func() bool {
		_, err := os.Stat(m.path("new"))
		_, gone := os.Stat(m.path("file"))
		return err == nil && errors.Is(gone, fs.ErrNotExist)
	})
	// The list is cached apart from what it names, for as long.
	testenv.Until(t, "the new list", func() bool {
		return slices.Equal(namesIn(t, m.at), []string{"new"})
	})
}

// A program that opens a file sees all of what it holds, although the kernel has cached the size of
// the one that it was before.
func TestMountOpensReplaced(t *testing.T) {
	t.Parallel()
	m := mountFar(t, "--cache", "1m")
	for _, text := range []string{"first", "a longer one", "short"} {
		replacing := filepath.Join(m.far, "replacing")
		writeFile(t, replacing, []byte(text))
		must(t, os.Rename(replacing, filepath.Join(m.far, "file")))
		got := make([]byte, 100)
		f, err := os.Open(m.path("file"))
		must(t, err)
		defer f.Close()
		if n, err := f.Read(got); string(got[:n]) != text {
			t.Errorf("%q, %v, want %q", got[:n], err, text)
		}
	}
}

// A file that the kernel still knows, but that was removed on the host, does not exist for a program
// that opens it, and is made for one that wants that.
func TestMountOpensRemoved(t *testing.T) {
	t.Parallel()
	m := mountFar(t, "--cache", "1m")
	for _, flags := range []int{os.O_RDONLY, os.O_RDWR | os.O_CREATE, os.O_WRONLY | os.O_TRUNC,
		os.O_WRONLY | os.O_CREATE | os.O_TRUNC} {
		writeFile(t, m.path("file"), []byte("contents"))
		if got := readFile(t, m.path("file")); string(got) != "contents" {
			t.Errorf("%q", got)
		}
		must(t, os.Remove(filepath.Join(m.far, "file")))
		f, err := os.OpenFile(m.path("file"), flags, 0o600)
		if err == nil {
			must(t, f.Close())
		}
		if flags&os.O_CREATE != 0 && err != nil ||
			flags&os.O_CREATE == 0 && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("flags %#x: %v", flags, err)
		}
	}
}

// A file that programs on the host replace again and again while others read it is never read in
// parts: each reader has one of the files, from its beginning to its end.
func TestMountReadsReplaced(t *testing.T) {
	t.Parallel()
	for _, cache := range []string{"0", "1s"} {
		t.Run(cache, func(t *testing.T) {
			t.Parallel()
			m := mountFar(t, "--cache", cache)
			far := filepath.Join(m.far, "file")
			size := func(generation int) int { return 100_000 + generation*1001 }
			replace := func(generation int) {
				writeFile(t, far+".new", bytes.Repeat([]byte{byte(generation)}, size(generation)))
				must(t, os.Rename(far+".new", far))
			}
			replace(0)
			done := make(chan struct{})
			var readers sync.WaitGroup
			for _, flags := range []int{os.O_RDONLY, os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
				readers.Go(func() {
					for {
						readWhole(t, m.path("file"), flags, size)
						select {
						case <-done:
							return
						default:
						}
					}
				})
			}
			for generation := 1; generation < 150 && !t.Failed(); generation++ {
				replace(generation)
				time.Sleep(time.Duration(generation%20) * time.Millisecond)
			}
			close(done)
			readers.Wait()
		})
	}
}

// readWhole reads a file slowly, and compares it with the one that its first byte says it is.
func readWhole(t *testing.T, name string, flags int, size func(generation int) int) {
	f, err := os.OpenFile(name, flags, 0o600)
	if errors.Is(err, syscall.ESTALE) {
		return // it was replaced twice while it was being opened
	} else if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	var data []byte
	block := make([]byte, 8<<10)
	for {
		n, err := f.Read(block)
		data = append(data, block[:n]...)
		if err == io.EOF {
			break
		} else if err != nil {
			t.Error(err)
			return
		}
	}
	if len(data) == 0 {
		t.Error("it is empty")
		return
	}
	generation := int(data[0])
	if len(data) != size(generation) {
		t.Errorf("%d bytes of file %d, want %d", len(data), generation, size(generation))
	}
	if n := bytes.Count(data, data[:1]); n != len(data) {
		t.Errorf("%d of %d bytes are those of file %d", n, len(data), generation)
	}
}

// A mount in the background is ready when the command returns, and ends with umount or fusermount3
// -u; in the foreground it also ends with a signal.
func TestMountAndUnmount(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, at string, pid *os.Process) error{
		"umount": func(t *testing.T, at string, _ *os.Process) error {
			return unmount(t, func() outcome { return run(t, "/", "umount", at) })
		},
		"fusermount3": func(t *testing.T, at string, _ *os.Process) error {
			return unmount(t, func() outcome {
				return finish(t, exec.Command("fusermount3", "-u", at))
			})
		},
		"signal": func(t *testing.T, at string, p *os.Process) error {
			return p.Signal(syscall.SIGTERM)
		},
	} {
		t.Run(name, func(t *testing.T) {
			needFUSE(t)
			at, far := t.TempDir(), t.TempDir()
			cmd := command(t, far, "mount", "-f", "-D", opensshd.Find(t, "sftp-server"), "far:"+far,
				at)
			var said bytes.Buffer
			cmd.Stderr = &said
			must(t, cmd.Start())
			testenv.Until(t, "the mount", func() bool { return isMounted(t, at) })
			writeFile(t, filepath.Join(at, "file"), []byte("x"))
			must(t, end(t, at, cmd.Process))
			if err := cmd.Wait(); err != nil && name != "signal" {
				t.Errorf("%v: %s", err, said.String())
			}
			if isMounted(t, at) {
				t.Error("it is still mounted")
			}
			if got := readFile(t, filepath.Join(far, "file")); string(got) != "x" {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		bin, at, far := t.TempDir(), t.TempDir(), t.TempDir()
		cat, err := exec.LookPath("cat")
		must(t, err)
		must(t, os.Symlink(cat, filepath.Join(bin, "fusermount3"))) // which knows no -o, and says so
		cmd := command(t, far, "mount", "-D", opensshd.Find(t, "sftp-server"), "far:"+far, at)
		cmd.Env = append(cmd.Env, "LC_ALL=C", "PATH="+bin+":"+os.Getenv("PATH"))
		want := "usftp: cannot mount at " + at + ": fusermount3: invalid option -- 'o'\n"
		if o := finish(t, cmd); o.code != 1 || o.stderr != want {
			t.Errorf("%+v", o)
		}
	})
	t.Run("not mounted", func(t *testing.T) {
		needFUSE(t)
		at := t.TempDir()
		want := "usftp: cannot unmount " + at + ": nothing is mounted there\n"
		if o := run(t, "/", "umount", at); o.code != 1 || o.stderr != want {
			t.Errorf("%+v", o)
		}
	})
	t.Run("killed", func(t *testing.T) {
		needFUSE(t)
		at, far := t.TempDir(), t.TempDir()
		mount := func(flags ...string) *exec.Cmd {
			args := append([]string{"mount", "-D", opensshd.Find(t, "sftp-server")}, flags...)
			return command(t, far, append(args, "far:"+far, at)...)
		}
		// The process of the background, which says when it is ready.
		ready, told, err := os.Pipe()
		must(t, err)
		defer ready.Close()
		cmd := mount("--cache", "1m")
		cmd.Env = append(cmd.Env, "USFTP_MOUNT_READY=3")
		cmd.ExtraFiles = []*os.File{told}
		must(t, cmd.Start())
		told.Close()
		if line, err := io.ReadAll(ready); string(line) != "mounted\n" {
			t.Fatalf("%q, %v", line, err)
		}
		_, err = os.Stat(at) // which the kernel remembers
		must(t, err)
		must(t, cmd.Process.Kill())
		cmd.Wait()
		want := "usftp: " + at + " has a mount whose program is gone: run `usftp umount " + at +
			"` first\n"
		if o := finish(t, mount()); o.code != 1 || o.stderr != want {
			t.Errorf("%+v", o)
		}
		if err := unmount(t, func() outcome { return run(t, "/", "umount", at) }); err != nil ||
			isMounted(t, at) {
			t.Error(err)
		}
	})
	t.Run("killed before it is ready", func(t *testing.T) {
		needFUSE(t)
		at, far := t.TempDir(), t.TempDir()
		for range 20 {
			cmd := command(t, far, "mount", "-f", "-D", opensshd.Find(t, "sftp-server"), "far:"+far,
				at)
			mounts, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			must(t, err) // not by package os, which would take the events
			must(t, cmd.Start())
			for !isMounted(t, at) {
				change := []unix.PollFd{{Fd: int32(mounts), Events: unix.POLLPRI}}
				if n, err := unix.Poll(change, int(tooLong.Milliseconds())); n == 0 {
					t.Fatalf("it does not mount: %v", err)
				}
			}
			unix.Close(mounts)
			must(t, cmd.Process.Kill())
			if err := within(t, margin, "its end", cmd.Wait); err == nil {
				t.Error("it was not killed")
			}
			must(t, unmount(t, func() outcome { return run(t, "/", "umount", "-z", at) }))
			if t.Failed() {
				return
			}
		}
	})
	t.Run("no place for the log", func(t *testing.T) {
		needFUSE(t)
		at, far := t.TempDir(), t.TempDir()
		cmd := command(t, far, "mount", "-D", opensshd.Find(t, "sftp-server"), "far:"+far, at)
		cmd.Env = append(cmd.Env, "XDG_STATE_HOME=/dev/null")
		if o := finish(t, cmd); o.code != 0 || !strings.Contains(o.stderr, "there is no log: ") {
			t.Errorf("%+v", o)
		}
		must(t, unmount(t, func() outcome { return run(t, "/", "umount", at) }))
	})
	t.Run("no such directory", func(t *testing.T) {
		needFUSE(t)
		far := filepath.Join(t.TempDir(), "nope")
		want := "usftp: cannot mount far:" + far + ": the host has no such directory\n"
		if o := run(t, "/", "mount", "-D", opensshd.Find(t, "sftp-server"), "far:"+far,
			t.TempDir()); o.code != 1 || o.stderr != want {
			t.Errorf("%+v", o)
		}
	})
	t.Run("busy", func(t *testing.T) {
		m := mountFar(t)
		f, err := os.Create(m.path("file"))
		must(t, err)
		defer f.Close()
		if o := run(t, "/", "umount", m.at); o.code != 1 ||
			!strings.Contains(o.stderr, "programs are using it") {
			t.Errorf("%+v", o)
		}
		if o := run(t, "/", "umount", "-z", m.at); o.code != 0 || isMounted(t, m.at) {
			t.Errorf("%+v", o)
		}
		_, err = f.WriteString("after all")
		must(t, err)
		must(t, f.Close())
		if got := readFile(t, filepath.Join(m.far, "file")); string(got) != "after all" {
			t.Errorf("%q", got)
		}
	})
}

// copy_file_range works whether or not the host can copy, and within one file where the ranges do
// not overlap.
func TestMountCopyFileRange(t *testing.T) {
	t.Parallel()
	server := opensshd.Find(t, "sftp-server")
	for name, program := range map[string]string{"copy-data": server,
		"no copy-data": server + " -P copy-data"} {
		t.Run(name, func(t *testing.T) {
			m := mountHost(t, "far", "-D", program)
			data := randomData(1 << 20)
			writeFile(t, m.path("from"), data)
			from, err := os.OpenFile(m.path("from"), os.O_RDWR, 0)
			must(t, err)
			defer from.Close()
			to, err := os.Create(m.path("to"))
			must(t, err)
			defer to.Close()
			copied := func(to *os.File, at, off int64, length int) (int, error) {
				return unix.CopyFileRange(int(from.Fd()), &at, int(to.Fd()), &off, length, 0)
			}
			want := make([]byte, 700_123)
			copy(want[123:], data[1000:])
			for n := 0; n < 700_000; {
				got, err := copied(to, int64(1000+n), int64(123+n), 700_000-n)
				if err != nil || got == 0 {
					t.Fatalf("%d, %v", got, err)
				}
				n += got
			}
			if got := readFile(t, m.path("to")); !bytes.Equal(got, want) {
				t.Errorf("%d bytes, or others", len(got))
			}
			if n, err := copied(from, 0, 900_000, 1000); n != 1000 || err != nil {
				t.Errorf("in one file: %d, %v", n, err)
			}
			copy(data[900_000:], data[:1000])
			if got := readFile(t, m.path("from")); !bytes.Equal(got, data) {
				t.Errorf("in one file: %d bytes, or others", len(got))
			}
			if n, err := copied(from, 0, 500, 1000); !errors.Is(err, unix.EINVAL) {
				t.Errorf("overlapping: %d, %v", n, err)
			}
		})
	}
}

// Options of sshfs have the same effect, or are refused with a reason.
func TestMountOptions(t *testing.T) {
	t.Parallel()
	t.Run("ro", func(t *testing.T) {
		m := mountFar(t, "-o", "ro")
		if err := os.WriteFile(m.path("file"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
			t.Error(err)
		}
	})
	t.Run("owner and mode", func(t *testing.T) {
		m := mountFar(t, "-o", "uid=1234,gid=4321", "-o", "umask=027,reconnect,cache_timeout=5")
		writeFile(t, filepath.Join(m.far, "file"), nil)
		info, err := os.Stat(m.path("file"))
		must(t, err)
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 1234 || stat.Gid != 4321 ||
			info.Mode() != 0o750 {
			t.Errorf("%+v", stat)
		}
	})
	t.Run("follow_symlinks", func(t *testing.T) {
		m := mountFar(t, "-o", "follow_symlinks")
		writeFile(t, filepath.Join(m.far, "file"), []byte("x"))
		must(t, os.Symlink("file", filepath.Join(m.far, "link")))
		if info, err := os.Lstat(m.path("link")); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%v, %v", info, err)
		}
	})
	t.Run("no_contain_symlinks", func(t *testing.T) {
		for options, want := range map[string]error{
			"reconnect": syscall.EPERM, "no_contain_symlinks,contain_symlinks": syscall.EPERM,
			"no_contain_symlinks": nil,
		} {
			m := mountFar(t, "-o", options)
			must(t, os.Symlink("/etc/hostname", filepath.Join(m.far, "link")))
			if _, err := os.Readlink(m.path("link")); !errors.Is(err, want) {
				t.Errorf("-o %s: %v", options, err)
			}
			if _, err := os.Open(m.path("link")); want != nil && !errors.Is(err, want) {
				t.Errorf("-o %s: open: %v", options, err)
			}
		}
	})
	t.Run("transform_symlinks", func(t *testing.T) {
		m := mountFar(t, "-o", "transform_symlinks")
		must(t, os.MkdirAll(filepath.Join(m.far, "a/b"), 0o755))
		writeFile(t, filepath.Join(m.far, "file"), []byte("x"))
		must(t, os.Symlink(filepath.Join(m.far, "file"), filepath.Join(m.far, "a/b/link")))
		if got, err := os.Readlink(m.path("a/b/link")); err != nil || got != "../../file" {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("the kernel's", func(t *testing.T) {
		if os.Geteuid() != 0 {
			testenv.Unavailable(t, "root, who may have allow_other everywhere")
		}
		m := mountFar(t, "-o", "noexec,noatime,allow_other", "-o", "fsname=somewhere")
		line := mountLine(t, m.at)
		for _, option := range []string{"noexec", "noatime", "allow_other", "default_permissions",
			" fuse.usftp somewhere "} {
			if !strings.Contains(line, option) {
				t.Errorf("no %s: %s", option, line)
			}
		}
	})
	for option, reason := range map[string]string{
		"suid": "not supported", "sshfs_sync": "not supported", "nonsense": "not known",
		"uid=x": "valid number",
	} {
		t.Run(option, func(t *testing.T) {
			if o := run(t, "/", "mount", "-o", option, "far:", t.TempDir()); o.code != 2 ||
				!strings.Contains(o.stderr, reason) {
				t.Errorf("%+v", o)
			}
		})
	}
	for flag, reason := range map[string]string{"-d": "use -f -vv", "-s": "concurrently",
		"-1": "version 2", "-p": "use -P"} {
		t.Run(flag, func(t *testing.T) {
			if o := run(t, "/", "mount", flag, "far:", t.TempDir()); o.code != 2 ||
				!strings.Contains(o.stderr, reason) {
				t.Errorf("%+v", o)
			}
		})
	}
	t.Run("root's mounts", func(t *testing.T) {
		if os.Geteuid() != 0 {
			testenv.Unavailable(t, "root, whose mounts have them all")
		}
		m := mountFar(t)
		line := mountLine(t, m.at)
		for _, option := range []string{"nosuid", "nodev", "default_permissions"} {
			if !strings.Contains(line, option) {
				t.Errorf("no %s: %s", option, line)
			}
		}
	})
}
