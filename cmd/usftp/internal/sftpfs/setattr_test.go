//go:build linux || darwin

package sftpfs

import (
	"math"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// create makes a file in the root.
func (s *scripted) create(t *testing.T, name string) *opened {
	t.Helper()
	in := &fuse.CreateIn{InHeader: *root(), Mode: syscall.S_IFREG | 0o600,
		Flags: uint32(os.O_WRONLY | os.O_CREATE | os.O_EXCL)}
	var made fuse.CreateOut
	if status := s.Create(nil, in, name, &made); status != fuse.OK {
		t.Fatal(status)
	}
	return &opened{s, t, fuse.InHeader{NodeId: made.NodeId}, made.Fh}
}

func (o *opened) flush() fuse.Status {
	return o.Flush(nil, &fuse.FlushIn{InHeader: o.header, Fh: o.fh})
}

const setTime = 1_000_000_000

func (o *opened) setTimes() {
	o.t.Helper()
	if status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_MTIME | fuse.FATTR_ATIME,
		Mtime: setTime, Atime: setTime}); status != fuse.OK {
		o.t.Error(status)
	}
}

// A time before 1970 comes as one after 2096. It is shown as what it is. Where the other time is
// set, which sets both, it becomes the nearest that SFTP has.
func TestTimesBefore1970(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", nil)
	if err := s.server.Files.SetModTime("/file", time.Unix(-86400, 0)); err != nil {
		t.Fatal(err)
	}
	o := s.open(t, "file")
	attr, status := o.getAttr()
	if status != fuse.OK || int64(attr.Mtime) != -86400 || attr.Atime != attr.Mtime ||
		attr.Ctime != attr.Mtime {
		t.Errorf("%v: %d, %d, %d", status, int64(attr.Mtime), int64(attr.Atime), int64(attr.Ctime))
	}
	if status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_ATIME,
		Atime: setTime}); status != fuse.OK {
		t.Fatal(status)
	}
	o.flush()
	a, err := s.server.Files.Lstat("/file")
	if err != nil || a.ATime != setTime || a.MTime != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

// Apache MINA sets times after January 2038, but then its directory cannot be listed any more.
func TestTimeThatCannotBeTold(t *testing.T) {
	s := &scripted{version: "SSH-2.0-APACHE-SSHD-2.16.0",
		server: sftptest.NewServer(t, sftptest.Script{})}
	s.mount(t, 0)
	s.server.Files.WriteFile("/file", nil)
	o := s.open(t, "file")
	if status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_MTIME | fuse.FATTR_ATIME,
		Mtime: 1 << 31, Atime: 1 << 31}); status != fuse.OK {
		t.Fatal(status)
	}
	o.flush()
	a, err := s.server.Files.Lstat("/file")
	if err != nil || a.ATime != math.MaxInt32 || a.MTime != math.MaxInt32 {
		t.Errorf("%+v, %v", a, err)
	}
}

// What is set after a program has closed a new file is on the host when the call returns: the
// kernel ends an open file later, and nobody learns of an error then.
func TestSetAfterClose(t *testing.T) {
	for _, data := range []string{"", "data"} {
		s := mountScripted(t, time.Minute, sftptest.Script{})
		o := s.create(t, "file")
		if data != "" {
			o.write(0, data)
		}
		if status := o.flush(); status != fuse.OK {
			t.Fatal(status)
		}
		o.setTimes()
		if a, err := s.server.Files.Lstat("/file"); err != nil || a.MTime != setTime {
			t.Errorf("%q: the host says %d, %v", data, a.MTime, err)
		}
	}
}

// A file that is changed after its times were set has the time of the change.
func TestChangedAfterSet(t *testing.T) {
	for what, change := range map[string]func(o *opened){
		"written": func(o *opened) { o.write(3, "two") },
		"emptied": func(o *opened) {
			if status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE}); status != fuse.OK {
				o.t.Error(status)
			}
		},
		"copied to": func(o *opened) {
			o.server.Files.WriteFile("/other", []byte("two"))
			if n, status := o.open(o.t, "other").copyTo(o, 0, 3, 3); n != 3 {
				o.t.Errorf("%d bytes, %v", n, status)
			}
		},
	} {
		s := mountScripted(t, time.Minute, sftptest.Script{})
		o := s.create(t, "file")
		o.write(0, "one")
		o.setTimes()
		if attr, status := o.getAttr(); status != fuse.OK || attr.Mtime != setTime {
			t.Errorf("set: %d, %v", attr.Mtime, status)
		}
		change(o)
		if attr, status := o.getAttr(); status != fuse.OK || attr.Mtime == setTime {
			t.Errorf("%s: %d, %v", what, attr.Mtime, status)
		}
		if status := o.flush(); status != fuse.OK {
			t.Fatal(status)
		}
		if a, err := s.server.Files.Lstat("/file"); err != nil || a.MTime == setTime {
			t.Errorf("%s: the host says %d, %v", what, a.MTime, err)
		}
	}
}

// On a host that lets nobody set times or permissions, a program that closes a file does not fail,
// since all its data has arrived; one that sets them does, once that is known.
func TestHostThatSetsNoAttributes(t *testing.T) {
	for _, version := range []string{"", openSSH} {
		s := &scripted{version: version, server: sftptest.NewServer(t,
			sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type == wire.TypeSetstat || r.Type == wire.TypeFsetstat {
					return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
				}
				return nil
			}})}
		s.mount(t, time.Minute)
		for _, name := range []string{"one", "two"} {
			o := s.create(t, name)
			o.write(0, "data")
			status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_MTIME | fuse.FATTR_ATIME,
				Mtime: setTime, Atime: setTime})
			if name == "two" && status == fuse.OK {
				t.Error("nobody learns that the host does not set times")
			}
			if status := o.flush(); status != fuse.OK {
				t.Errorf("%q: closing %s: %v", version, name, status)
			}
			if data, err := s.server.Files.ReadFile("/" + name); string(data) != "data" {
				t.Errorf("%s is %q, %v", name, data, err)
			}
		}
	}
}

// A program that takes others' permissions for a file that it has just made does so before it
// writes what they must not read.
func TestPermissionsTakenAtOnce(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	o := s.create(t, "file")
	setMode := func(mode uint32) {
		if status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE,
			Mode: mode}); status != fuse.OK {
			t.Error(status)
		}
	}
	setMode(0o644)
	if status := o.sync(); status != fuse.OK {
		t.Error(status)
	}
	setMode(0o640)
	o.write(0, "secret")
	if a, err := s.server.Files.Lstat("/file"); err != nil || a.Permissions&0o7777 != 0o640 {
		t.Errorf("the host says %o, %v", a.Permissions, err)
	}
}

// A host that gives a new file or directory more permissions than it was asked for has them taken
// before the program writes to it.
func TestPermissionsThatTheHostGave(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.AddFaults(sftptest.Fault{On: wire.TypeStat, Path: "/file", Times: 1,
		Do: sftptest.Call("give", func(sftptest.Request) { s.server.Files.SetMode("/file", 0o644) })})
	s.create(t, "file")
	s.server.AddFaults(sftptest.Fault{On: wire.TypeLstat, Path: "/dir", Times: 1,
		Do: sftptest.Call("give", func(sftptest.Request) { s.server.Files.SetMode("/dir", 0o755) })})
	if status := s.Mkdir(nil, &fuse.MkdirIn{InHeader: *root(), Mode: 0o700}, "dir",
		new(fuse.EntryOut)); status != fuse.OK {
		t.Fatal(status)
	}
	for name, want := range map[string]uint32{"/file": 0o600, "/dir": 0o700} {
		if a, err := s.server.Files.Lstat(name); err != nil || a.Permissions&0o7777 != want {
			t.Errorf("the host says %o of %s, %v", a.Permissions, name, err)
		}
	}
}

// A program that sets the access time of a file that it has written leaves the time of the write.
func TestAccessTimeAfterWrite(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("old"))
	if err := s.server.Files.SetModTime("/file", time.Unix(setTime, 0)); err != nil {
		t.Fatal(err)
	}
	o := s.open(t, "file")
	o.write(0, "new")
	if status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_ATIME,
		Atime: setTime}); status != fuse.OK {
		t.Fatal(status)
	}
	if status := o.flush(); status != fuse.OK {
		t.Fatal(status)
	}
	if a, err := s.server.Files.Lstat("/file"); err != nil || a.ATime != setTime ||
		a.MTime == setTime {
		t.Errorf("accessed %d, modified %d, %v", a.ATime, a.MTime, err)
	}
}

// What a program sets while another attribute is on its way to the host is set as well.
func TestSetDuringSync(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	o := s.create(t, "file")
	setMode := func(mode uint32) {
		in := fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: mode}
		if status := o.setAttr(in); status != fuse.OK {
			t.Error(status)
		}
	}
	gate := new(sftptest.Gate)
	s.server.AddFaults(sftptest.Fault{On: wire.TypeSetstat, Times: 1, Do: sftptest.Hold(gate)})
	setMode(0o640)
	done := make(chan fuse.Status)
	go func() { done <- o.sync() }()
	gate.Wait(1)
	setMode(0o644)
	gate.Open()
	if status := <-done; status != fuse.OK {
		t.Error(status)
	}
	if status := o.flush(); status != fuse.OK {
		t.Error(status)
	}
	if a, err := s.server.Files.Lstat("/file"); err != nil || a.Permissions&0o7777 != 0o644 {
		t.Errorf("the host says %o, %v", a.Permissions, err)
	}
}

// What a program has set on a file that it still has open when the mount ends is set on the host.
func TestSetAtTheEnd(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	o := s.create(t, "file")
	in := fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: 0o644}
	if status := o.setAttr(in); status != fuse.OK {
		t.Fatal(status)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if a, err := s.server.Files.Lstat("/file"); err != nil || a.Permissions&0o7777 != 0o644 {
		t.Errorf("the host says %o, %v", a.Permissions, err)
	}
}

// A time that a program saw is set for the file that it wrote, not for one that has its name by then.
func TestTimesOfReplaced(t *testing.T) {
	s := mountOpenSSH(t, 0, time.Minute)
	s.server.Files.WriteFile("/file", []byte("the one that is written"))
	o := s.open(t, "file")
	o.write(0, "THE")
	if _, status := o.getAttr(); status != fuse.OK {
		t.Error(status)
	}
	s.server.Files.WriteFile("/new", []byte("another"))
	if err := s.server.Files.SetModTime("/new", time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Files.Rename("/new", "/file"); err != nil {
		t.Fatal(err)
	}
	if status := o.sync(); status != fuse.OK {
		t.Error(status)
	}
	if is, err := s.server.Files.Lstat("/file"); err != nil || is.MTime != 1e9 {
		t.Errorf("the other file's time is %d, %v", is.MTime, err)
	}
}

// Servers in Java succeed without making a file longer, and Twisted's sets no sizes.
func TestSizeThatTheHostDoesNotSet(t *testing.T) {
	for name, answer := range map[string]wire.Code{"success": wire.OK, "refusal": wire.OpUnsupported} {
		t.Run(name, func(t *testing.T) {
			nothing := sftptest.Refuse(answer, "")
			s := mountScripted(t, 0, sftptest.Script{Faults: []sftptest.Fault{
				{On: wire.TypeFsetstat, Do: nothing}, {On: wire.TypeSetstat, Do: nothing}}})
			s.server.Files.WriteFile("/file", []byte("12345"))
			o := s.open(t, "file")
			resize := func(size uint64, want string) {
				t.Helper()
				status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: size})
				if shorter := size == 3; shorter != (status == fuse.Status(syscall.ENOTSUP)) ||
					!shorter && status != fuse.OK {
					t.Errorf("%d bytes: %v", size, status)
				}
				if got, err := s.server.Files.ReadFile("/file"); string(got) != want {
					t.Errorf("%q, %v", got, err)
				}
				if attr, _ := o.getAttr(); attr.Size != uint64(len(want)) {
					t.Errorf("%d bytes are shown", attr.Size)
				}
			}
			resize(8, "12345\x00\x00\x00")
			resize(8, "12345\x00\x00\x00")
			resize(3, "12345\x00\x00\x00")
			resize(0, "")
			resize(0, "")
		})
	}
}

// A file that the host does not make longer gets its size also if it has grown since it was last
// looked at, by data that programs here had written.
func TestSizeAfterAWrite(t *testing.T) {
	nothing := sftptest.Refuse(wire.OK, "")
	s := mountScripted(t, time.Hour, sftptest.Script{Faults: []sftptest.Fault{
		{On: wire.TypeFsetstat, Do: nothing}, {On: wire.TypeSetstat, Do: nothing}}})
	o := s.create(t, "file")
	o.write(0, "12345")
	in := fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 8}
	if status := o.setAttr(in); status != fuse.OK {
		t.Error(status)
	}
	if got, err := s.server.Files.ReadFile("/file"); string(got) != "12345\x00\x00\x00" {
		t.Errorf("%q, %v", got, err)
	}
}

// Where a host does not set the size of an open file, the file that has got its name meanwhile is
// not changed in its place.
func TestSizeOfAFileWhoseNameIsTaken(t *testing.T) {
	for _, c := range []struct {
		answer wire.Code
		size   uint64
		status fuse.Status
		want   string
	}{{wire.OK, 8, fuse.OK, "12345\x00\x00\x00"},
		{wire.OpUnsupported, 8, fuse.OK, "12345\x00\x00\x00"},
		{wire.OpUnsupported, 0, fuse.Status(syscall.ENOTSUP), "12345"}} {
		for _, other := range []string{"other", "another"} {
			var files *sftptest.Files
			s := mountScripted(t, 0, sftptest.Script{
				Faults: []sftptest.Fault{{On: wire.TypeFsetstat, Do: sftptest.Refuse(c.answer, "")}},
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == wire.TypeFsetstat {
						files.Rename("/file", "/moved")
						files.WriteFile("/file", []byte(other))
					}
					return nil
				}})
			files = s.server.Files
			files.WriteFile("/file", []byte("12345"))
			if err := files.SetModTime("/file", time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
			o := s.open(t, "file")
			status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: c.size})
			file, _ := files.ReadFile("/moved")
			found, err := files.ReadFile("/file")
			if status != c.status || string(file) != c.want || string(found) != other {
				t.Errorf("%+v: %v, %q, and of the other %q, %v", c, status, file, found, err)
			}
		}
	}
}

// The size of a file to which a program appends is set by its handle: on the host its name may be
// another file's by now, as when logs are rotated.
func TestSizeOfARotatedLog(t *testing.T) {
	for _, size := range []uint64{0, 2, 6} {
		s := mountScripted(t, time.Minute, sftptest.Script{})
		s.server.Files.WriteFile("/log", []byte("one\n"))
		o := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY|os.O_APPEND)
		if err := s.server.Files.Rename("/log", "/log.1"); err != nil {
			t.Fatal(err)
		}
		s.server.Files.WriteFile("/log", []byte("two\n"))
		status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: size})
		old, _ := s.server.Files.ReadFile("/log.1")
		now, _ := s.server.Files.ReadFile("/log")
		if want := ("one\n\x00\x00")[:size]; status != fuse.OK || string(old) != want ||
			string(now) != "two\n" {
			t.Errorf("size %d: %v, the host has %q and %q", size, status, old, now)
		}
	}
}

// A file to which a program appends, and which it cuts, is still the same if the host has cut it and
// the answer was lost.
func TestSizeOfALogWhoseAnswerIsLost(t *testing.T) {
	for what, lose := range map[string]sftptest.Action{"cut": sftptest.Truncate(0),
		"not cut": sftptest.Hangup()} {
		synctest.Test(t, func(t *testing.T) {
			s := mountScripted(t, 0, sftptest.Script{})
			s.server.Files.WriteFile("/log", nil)
			o := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY|os.O_APPEND)
			o.write(0, "one\n")
			if status := o.sync(); status != fuse.OK {
				t.Fatal(status)
			}
			s.server.AddFaults(sftptest.Fault{On: wire.TypeFsetstat, Times: 1, Do: lose})
			status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 2})
			o.write(2, "two\n")
			if written := o.sync(); status != fuse.OK || written != fuse.OK {
				t.Errorf("%s: %v, and then %v", what, status, written)
			}
			if data, _ := s.server.Files.ReadFile("/log"); string(data) != "ontwo\n" {
				t.Errorf("%s: the host has %q", what, data)
			}
		})
	}
}

// Finding out whether the size was set takes no request more than showing it.
func TestSizeIsAskedForOnce(t *testing.T) {
	s := mountScripted(t, time.Hour, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("12345"))
	o := s.open(t, "file")
	s.server.ForgetRequests()
	if status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 3}); status != fuse.OK {
		t.Error(status)
	}
	if asked := s.server.Requests(wire.TypeLstat, wire.TypeStat, wire.TypeFstat); len(asked) != 1 {
		t.Errorf("asked %v", asked)
	}
}

// paramiko's set_file_attr empties a file to set its size, and fills it with zeros.
func TestSizeWhereThatEmpties(t *testing.T) {
	s := &scripted{version: "SSH-2.0-paramiko_2.12.0"}
	s.server = sftptest.NewServer(t, sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeFsetstat || r.Type == wire.TypeSetstat {
				s.server.Files.WriteFile(r.Path, nil)
			}
			return nil
		}})
	s.mount(t, 0)
	s.server.Files.WriteFile("/file", []byte("12345"))
	o := s.open(t, "file")
	for _, step := range []struct {
		size   uint64
		status fuse.Status
		want   string
	}{
		{3, fuse.Status(syscall.ENOTSUP), "12345"},
		{8, fuse.OK, "12345\x00\x00\x00"},
		{0, fuse.OK, ""},
	} {
		status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: step.size})
		if got, err := s.server.Files.ReadFile("/file"); status != step.status ||
			string(got) != step.want {
			t.Errorf("%d bytes: %v, %q, %v", step.size, status, got, err)
		}
	}
}

// Apache MINA sets the size of the file that has the name under which a handle was opened.
func TestSizeAfterRename(t *testing.T) {
	for _, version := range []string{"SSH-2.0-APACHE-SSHD-2.16.0", "SSH-2.0-other"} {
		s := &scripted{version: version}
		s.server = sftptest.NewServer(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
			Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type != wire.TypeFsetstat || r.Attrs.Flags&wire.AttrSize == 0 {
					return nil
				}
				data, err := s.server.Files.ReadFile("/file")
				if err != nil {
					return []sftptest.Action{sftptest.Refuse(wire.NoSuchFile, "")}
				}
				s.server.Files.WriteFile("/file", data[:min(len(data), int(r.Attrs.Size))])
				return []sftptest.Action{sftptest.Refuse(wire.OK, "")}
			}})
		s.mount(t, 0)
		cut := func(o *opened, want fuse.Status) {
			t.Helper()
			status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 3})
			if status != want {
				t.Errorf("%s: %v", version, status)
			}
		}
		s.server.Files.WriteFile("/file", []byte("12345"))
		o := s.open(t, "file")
		if status := s.Unlink(nil, root(), "file"); status != fuse.OK {
			t.Fatal(status)
		}
		cut(o, fuse.OK)
		if got, status := o.read(10); got != "123" {
			t.Errorf("%s: %q, %v", version, got, status)
		}
		if version == "SSH-2.0-other" {
			continue
		}
		s.server.Files.WriteFile("/file", []byte("abcde"))
		o = s.open(t, "file")
		s.move(t, "file", "moved")
		s.server.Files.WriteFile("/file", []byte("other"))
		cut(o, fuse.OK)
		s.server.Files.WriteFile("/new", []byte("newer"))
		s.move(t, "new", "moved") // without a link, no name is left of the file
		cut(o, fuse.Status(syscall.ESTALE))
		for name, want := range map[string]string{"/file": "other", "/moved": "newer"} {
			if data, err := s.server.Files.ReadFile(name); string(data) != want {
				t.Errorf("%s has %q, %v", name, data, err)
			}
		}
	}
}

// What codes of later drafts mean.
func TestRichCodes(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{RichCodes: true})
	s.server.Files.Mkdir("/dir")
	s.server.Files.WriteFile("/dir/file", nil)
	o := s.openIn(t, s.lookup(t, root(), "dir").NodeId, "file")
	if status := s.Rmdir(nil, root(), "dir"); status != fuse.Status(syscall.ENOTEMPTY) {
		t.Errorf("rmdir of a directory with a file: %v", status)
	}
	if status := s.Unlink(nil, s.lookup(t, root(), "dir"), "file"); status != fuse.OK {
		t.Fatal(status)
	}
	if status := s.Rmdir(nil, root(), "dir"); status != fuse.OK {
		t.Errorf("rmdir of a directory whose removed file is open: %v", status)
	}
	o.Release(nil, &fuse.ReleaseIn{Fh: o.fh})
}

// Some hosts, such as Maverick, ignore the mode in OPEN. A file that a program makes for itself gets
// it before there is anything in it, and one that another program has made meanwhile keeps its own.
func TestModeOfMade(t *testing.T) {
	for name, exists := range map[string]bool{"new": false, "made by another": true} {
		t.Run(name, func(t *testing.T) {
			s := mountScripted(t, 0, sftptest.Script{})
			if exists {
				s.server.Files.WriteFile("/file", nil)
			}
			s.server.AddFaults(sftptest.Fault{On: wire.TypeStat, Path: "/file", Times: 1,
				Do: sftptest.Call("ignore the mode in OPEN", func(sftptest.Request) {
					if err := s.server.Files.SetMode("/file", 0o644); err != nil {
						t.Error(err)
					}
				})})
			var out fuse.CreateOut
			if status := s.Create(nil, &fuse.CreateIn{InHeader: *root(),
				Flags: uint32(os.O_WRONLY | os.O_CREATE), Mode: 0o600}, "file",
				&out); status != fuse.OK {
				t.Fatal(status)
			}
			want := map[bool]uint32{false: 0o600, true: 0o644}[exists]
			a, err := s.server.Files.Lstat("/file")
			if err != nil || a.Permissions&0o777 != want {
				t.Errorf("mode %o, %v", a.Permissions, err)
			}
		})
	}
}
