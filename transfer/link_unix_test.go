//go:build linux || darwin || freebsd

package transfer_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// linkScene makes a tree of links with times and, if we may give files away, owners of their own,
// and what they lead to.
func linkScene(t *testing.T, dir string) (names []string, uid, gid int) {
	t.Helper()
	names = []string{"link", "broken", "deep/up"}
	uid, gid = os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 4711, 4811
	}
	errs := []error{os.MkdirAll(filepath.Join(dir, "deep"), 0o755),
		os.WriteFile(filepath.Join(dir, "file"), []byte("file"), 0o644)}
	for i, to := range []string{"file", "nowhere", "../deep"} {
		errs = append(errs, os.Symlink(to, filepath.Join(dir, names[i])),
			os.Lchown(filepath.Join(dir, names[i]), uid, gid))
		when := []unix.Timespec{unix.NsecToTimespec(oldTime.UnixNano()),
			unix.NsecToTimespec(oldTime.UnixNano())}
		errs = append(errs, unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(dir, names[i]), when,
			unix.AT_SYMLINK_NOFOLLOW))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return names, uid, gid
}

// sameLinks compares links with those that linkScene made, and makes sure that what they lead to is
// untouched.
func sameLinks(t *testing.T, dir string, names []string, uid, gid int) {
	t.Helper()
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if stat := info.Sys().(*syscall.Stat_t); int(stat.Uid) != uid || int(stat.Gid) != gid ||
			!info.ModTime().Equal(oldTime) {
			t.Errorf("%s belongs to %d:%d and is of %v, want %d:%d and %v", name, stat.Uid,
				stat.Gid, info.ModTime(), uid, gid, oldTime)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); int(stat.Uid) != os.Getuid() ||
		info.ModTime().Equal(oldTime) {
		t.Errorf("what a link leads to belongs to %d and is of %v", stat.Uid, info.ModTime())
	}
}

// TestLinksKeepOwnersAndTimes: to a host and back, and on this machine, with OpenSSH's server and
// ours, and also where such links exist already.
func TestLinksKeepOwnersAndTimes(t *testing.T) {
	ours, oursDir := ourHost(t)
	sshd := opensshd.Start(t, opensshd.Options{})
	real := throughProxy(t, sshd, cutproxy.Start(t, sshd.Addr()))
	sshdDir := t.TempDir()
	for name, test := range map[string]struct {
		host      pool.Host
		dir, path string
	}{"openssh": {real, sshdDir, sshdDir}, "ours": {ours, oursDir, "/"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			source := filepath.Join(dir, "source")
			names, uid, gid := linkScene(t, source)
			copyTree := func(direction way, from, to, at string) {
				t.Helper()
				tree := treeJob{Host: test.host, Direction: direction, Source: from,
					Target: to, Options: transfer.Options{
						Attributes: transfer.Attributes{Preserve: true, Owners: true}}}
				if direction == relay {
					tree.From = test.host
				}
				tree.Options.Events = func(e transfer.Event) {
					if e.Kind == transfer.Note || e.Kind == transfer.Warning {
						t.Errorf("%v: %s", direction, e.Message)
					}
				}
				// What the links lead to need not have old times: those files get the source's
				// times, which are new.
				if s, err := tree.Run(t.Context()); err != nil || s.Links != 3 {
					t.Fatalf("%v: %+v, %v", direction, s, err)
				}
				sameLinks(t, at, names, uid, gid)
			}
			up, there := filepath.Join(test.path, "up"), filepath.Join(test.path, "there")
			copyTree(upload, source, up, filepath.Join(test.dir, "up"))
			for _, name := range names {
				if err := os.Lchown(filepath.Join(test.dir, "up", name), os.Getuid(),
					os.Getgid()); err != nil {
					t.Fatal(err)
				}
			}
			copyTree(upload, source+"/.", up, filepath.Join(test.dir, "up"))
			copyTree(relay, up, there, filepath.Join(test.dir, "there"))
			copyTree(download, up, filepath.Join(dir, "back"), filepath.Join(dir, "back"))
			copyTree(download, up+"/.", filepath.Join(dir, "back"),
				filepath.Join(dir, "back"))
			copyTree(local, source, filepath.Join(dir, "here"), filepath.Join(dir, "here"))
		})
	}
}

// TestLinksThatKeepNothing: a host without lsetstat is reported once per tree, and is no failure;
// one that refuses it is a failure. Unless asked for, none of it is sent.
func TestLinksThatKeepNothing(t *testing.T) {
	without := slices.DeleteFunc(sftptest.OpenSSHExtensions(),
		func(e wire.ExtensionPair) bool { return e.Name == wire.ExtLsetstat })
	refuse := func(code wire.Code) []sftptest.Fault {
		return []sftptest.Fault{{On: wire.TypeExtended, Extension: wire.ExtLsetstat,
			Do: sftptest.Refuse(code, "no")}}
	}
	for what, test := range map[string]struct {
		script        sftptest.Script
		owners, times bool
		notes, failed int
		asked         bool
	}{
		"nothing wanted": {},
		"owners":         {owners: true, asked: true},
		"times":          {times: true, asked: true},
		"not offered": {script: sftptest.Script{Extensions: without}, owners: true,
			times: true, notes: 1},
		"not supported after all": {script: sftptest.Script{Faults: refuse(wire.OpUnsupported)},
			times: true, notes: 1, asked: true},
		"refused": {script: sftptest.Script{Faults: refuse(wire.PermissionDenied)},
			owners: true, failed: 3, asked: true},
	} {
		t.Run(what, func(t *testing.T) {
			b := newTreeBench(t, test.script, sftptest.LinkConfig{})
			source := filepath.Join(b.dir, "source")
			linkScene(t, source)
			s, err := b.tree(upload, source, "/copy", func(tree *treeJob) {
				tree.Options.Owners, tree.Options.Preserve = test.owners, test.times
			})
			if s.Failed != int64(test.failed) || (err != nil) != (test.failed > 0) ||
				test.failed > 0 && !errors.Is(err, fs.ErrPermission) ||
				s.Links != int64(3-test.failed) {
				t.Errorf("%+v, %v", s, err)
			}
			notes := b.notes()
			if len(notes) != test.notes || test.notes > 0 &&
				!strings.Contains(notes[0], "symbolic links") {
				t.Errorf("the notes are %q", notes)
			}
			asked := slices.ContainsFunc(b.server.Requests(wire.TypeExtended),
				func(r sftptest.Request) bool {
					there, err := b.server.Files.Lstat(r.Path)
					return r.Extension == wire.ExtLsetstat && err == nil &&
						there.Permissions&0o170000 == 0o120000
				})
			if asked != test.asked {
				t.Errorf("lsetstat was asked for: %t", asked)
			}
		})
	}
}
