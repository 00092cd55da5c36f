//go:build linux || darwin

package sftpfs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A file that was replaced while the connection was down is not taken for the one that was open,
// although a program has asked for the new one's attributes in between.
func TestReopenReplaced(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("the one that is open"))
	o := s.open(t, "file")
	s.server.Files.WriteFile("/file", []byte("another file of the name"))
	s.cut()
	var found fuse.EntryOut
	if status := s.Lookup(nil, root(), "file", &found); status != fuse.OK || found.Size != 24 {
		t.Errorf("the attributes: size %d, %v", found.Size, status)
	}
	if data, status := o.read(10); status != fuse.Status(syscall.ESTALE) {
		t.Errorf("read: %q, %v", data, status)
	}
}

// A file that another program here empties over the next connection is still the one that was open.
func TestReopenEmptiedHere(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("text"))
	if err := s.server.Files.SetModTime("/file", time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	s.cut()
	other := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDWR|os.O_TRUNC)
	if status := other.flush(); status != fuse.OK {
		t.Fatal(status)
	}
	other.Release(nil, &fuse.ReleaseIn{Fh: other.fh})
	testenv.Until(t, "the other program has closed it", func() bool {
		return len(s.files.get(o.fh).file.all()) == 1
	})
	s.lookup(t, root(), "file")
	if attr, status := o.getAttr(); status != fuse.OK || attr.Size != 0 {
		t.Errorf("size %d, %v", attr.Size, status)
	}
	if data, status := o.read(10); data != "" || status != fuse.OK {
		t.Errorf("read: %q, %v", data, status)
	}
}

// A file whose time was set here just before the connection was lost can be opened again.
func TestReopenTouchedHere(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("text"))
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	var out fuse.AttrOut
	in := fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: o.header,
		Valid: fuse.FATTR_MTIME, Mtime: 1e9}}
	if status := s.SetAttr(nil, &in, &out); status != fuse.OK {
		t.Fatal(status)
	}
	if err := s.server.Files.SetModTime("/file", time.Unix(1e9+1, 0)); err != nil {
		t.Fatal(err) // as if the answer with the new time had been lost
	}
	s.cut()
	s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDWR)
	if data, status := o.read(10); data != "text" || status != fuse.OK {
		t.Errorf("read: %q, %v", data, status)
	}
}

// A file that others extend over the same connection can still be reopened.
func TestReopenExtended(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/log", []byte("one\n"))
	o := s.open(t, "log")
	if err := s.server.Files.Append("/log", []byte("two\n")); err != nil {
		t.Fatal(err)
	}
	if attr, status := o.getAttr(); status != fuse.OK || attr.Size != 8 {
		t.Errorf("the attributes: size %d, %v", attr.Size, status)
	}
	s.cut()
	if data, status := o.read(10); status != fuse.OK || data != "one\ntwo\n" {
		t.Errorf("read: %q, %v", data, status)
	}
}

// A change whose answer was lost does not make the file another one, whether or not the host has
// made it.
func TestReopenAfterLostAnswer(t *testing.T) {
	for what, test := range map[string]struct {
		lost   wire.Type
		change func(o *opened) fuse.Status
		want   string
	}{
		"data over other data": {wire.TypeWrite, func(o *opened) fuse.Status {
			o.write(50, strings.Repeat("b", 100))
			return o.sync()
		}, strings.Repeat("a", 50) + strings.Repeat("b", 100)},
		"data behind other data": {wire.TypeWrite, func(o *opened) fuse.Status {
			o.write(100, "b")
			return o.sync()
		}, strings.Repeat("a", 100) + "b"},
		"a shorter size": {wire.TypeFsetstat, func(o *opened) fuse.Status {
			return o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 10})
		}, strings.Repeat("a", 10)},
		"a longer size": {wire.TypeFsetstat, func(o *opened) fuse.Status {
			return o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 101})
		}, strings.Repeat("a", 100) + "\x00"},
		"an earlier time": {wire.TypeSetstat, func(o *opened) fuse.Status {
			return o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_MTIME, Mtime: 1e9})
		}, strings.Repeat("a", 100)},
	} {
		for made, lose := range map[string]sftptest.Action{"made": sftptest.Truncate(0),
			"not made": sftptest.Hangup()} {
			t.Run(what+"/"+made, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					loseAnswer(t, sftptest.Fault{On: test.lost, Times: 1, Do: lose}, test.change,
						test.want)
				})
			})
		}
	}
}

// loseAnswer makes a change to a file that holds 100 bytes, whose answer is lost, and goes on with
// the file.
func loseAnswer(t *testing.T, lose sftptest.Fault, change func(o *opened) fuse.Status,
	want string) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", nil)
	o := s.open(t, "file")
	o.write(0, strings.Repeat("a", 100))
	if status := o.sync(); status != fuse.OK {
		t.Fatal(status)
	}
	before := len(s.server.Requests(wire.TypeInit))
	s.server.AddFaults(lose)
	if status := change(o); status != fuse.OK {
		t.Errorf("the change: %v", status)
	}
	if len(s.server.Requests(wire.TypeInit)) == before {
		t.Error("no answer was lost")
	}
	if data, status := o.read(200); status != fuse.OK || data != want {
		t.Errorf("read: %q, %v", data, status)
	}
	s.cut()
	o.write(0, "more")
	if status := o.sync(); status != fuse.OK {
		t.Errorf("written over the next connection: %v", status)
	}
}

// A file whose permissions no longer let its owner open it, as git's objects, can be opened again
// for the program that has it open, and has the same permissions then. It is not if it is another's.
func TestReopenForbidden(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		s := mountForbidding(t, sftptest.LinkConfig{})
		s.server.Files.WriteFile("/file", []byte("the one that is open"))
		o := s.open(t, "file")
		want, text := fuse.OK, "new one that is open"
		if replaced {
			want, text = fuse.Status(syscall.ESTALE), "another file of the name"
			s.server.Files.WriteFile("/file", []byte(text))
		}
		if err := s.server.Files.SetMode("/file", 0o440); err != nil {
			t.Fatal(err)
		}
		s.cut()
		o.write(0, "new")
		if status := o.sync(); status != want {
			t.Errorf("replaced %t: %v", replaced, status)
		}
		data, err := s.server.Files.ReadFile("/file")
		file, _ := s.server.Files.Lstat("/file")
		if string(data) != text || err != nil || file.Permissions&0o7777 != 0o440 {
			t.Errorf("replaced %t: the host has %q, %v, %o", replaced, data, err, file.Permissions)
		}
	}
}

// mountForbidding mounts a directory of a server that lets nobody open a file whose owner may not.
func mountForbidding(t *testing.T, link sftptest.LinkConfig) *scripted {
	t.Helper()
	s := &scripted{link: link}
	s.server = sftptest.NewServer(t, sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			needed := map[uint32]uint32{wire.OpenRead: 0o400, wire.OpenWrite: 0o200,
				wire.OpenRead | wire.OpenWrite: 0o600}[r.Flags&(wire.OpenRead|wire.OpenWrite)]
			file, err := s.server.Files.Lstat("/file")
			if r.Type != wire.TypeOpen || err != nil || file.Permissions&needed == needed {
				return nil
			}
			return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
		}})
	s.mount(t, 0)
	return s
}

// If the connection is lost once more while such a file is opened again, what was written to it is
// not given up, and it has its permissions in the end.
func TestReopenForbiddenIsCut(t *testing.T) {
	for _, on := range []wire.Type{wire.TypeSetstat, wire.TypeFsetstat} {
		for made, lose := range map[string]sftptest.Action{"made": sftptest.Truncate(0),
			"not made": sftptest.Hangup()} {
			s := mountForbidding(t, sftptest.LinkConfig{})
			s.server.Files.WriteFile("/file", []byte("old"))
			o := s.open(t, "file")
			if err := s.server.Files.SetMode("/file", 0o440); err != nil {
				t.Fatal(err)
			}
			s.server.AddFaults(sftptest.Fault{On: on, Times: 1, Do: lose})
			s.cut()
			o.write(0, "new")
			if status := o.sync(); status != fuse.OK {
				t.Errorf("%v %s: %v", on, made, status)
			}
			data, err := s.server.Files.ReadFile("/file")
			file, _ := s.server.Files.Lstat("/file")
			if string(data) != "new" || err != nil || file.Permissions&0o7777 != 0o440 {
				t.Errorf("%v %s: the host has %q, %v, %o", on, made, data, err, file.Permissions)
			}
		}
	}
}

// Programs that have such a file open do not get into each other's way when it is opened again.
func TestReopenForbiddenTwice(t *testing.T) {
	const trip = 10 * time.Millisecond
	for later := range 12 {
		synctest.Test(t, func(t *testing.T) {
			s := mountForbidding(t, sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
			s.server.Files.WriteFile("/file", []byte("text"))
			both := []*opened{s.open(t, "file"), s.open(t, "file")}
			if err := s.server.Files.SetMode("/file", 0); err != nil {
				t.Fatal(err)
			}
			s.cut()
			s.lookup(t, root(), "file")
			var reading sync.WaitGroup
			for i, o := range both {
				reading.Go(func() {
					time.Sleep(time.Duration(i*later) * trip / 2)
					if got, status := o.read(4); got != "text" || status != fuse.OK {
						t.Errorf("%d, %d steps later: %q, %v", i, later, got, status)
					}
				})
			}
			reading.Wait()
			file, err := s.server.Files.Lstat("/file")
			if err != nil || file.Permissions&0o7777 != 0 {
				t.Errorf("%d steps later: %o, %v", later, file.Permissions, err)
			}
		})
	}
}

// A mount that is only read changes no permissions.
func TestReopenForbiddenReadOnly(t *testing.T) {
	s := mountForbidding(t, sftptest.LinkConfig{})
	s.options.ReadOnly = true
	s.server.Files.WriteFile("/file", []byte("text"))
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	if err := s.server.Files.SetMode("/file", 0); err != nil {
		t.Fatal(err)
	}
	s.cut()
	if got, status := o.read(10); status != fuse.EACCES {
		t.Errorf("read: %q, %v", got, status)
	}
	if n := len(s.server.Requests(wire.TypeSetstat)); n > 0 {
		t.Errorf("%d changes", n)
	}
}

// A server that is killed while it carries out a WRITE leaves a part of it. The file is still the
// same, but one that ends in another way is not.
func TestReopenAfterPartOfWrite(t *testing.T) {
	const data = "what the program writes"
	for part, want := range map[string]fuse.Status{data[:8]: fuse.OK,
		"another file": fuse.Status(syscall.ESTALE)} {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mountScripted(t, time.Minute, sftptest.Script{})
				s.server.Files.WriteFile("/file", nil)
				s.open(t, "file").writePart(part, data, want)
			})
		})
	}
}

// writePart writes data at the beginning of /file, over a connection that is lost when the host has
// a part of it, and checks what sync says and what the host has then.
func (o *opened) writePart(part, data string, want fuse.Status) {
	o.t.Helper()
	o.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Times: 1,
		Do: sftptest.Call("write a part", func(sftptest.Request) {
			o.server.Files.WriteFile("/file", []byte(part))
		})}, sftptest.Fault{On: wire.TypeWrite, Times: 1, Do: sftptest.Hangup()})
	o.write(0, data)
	if status := o.sync(); status != want {
		o.t.Error(status)
	}
	got, _ := o.server.Files.ReadFile("/file")
	if whole := want == fuse.OK; (string(got) == data) != whole {
		o.t.Errorf("the host has %.30q", got)
	}
}

// The same happens within a file: then neither what was there nor what was written is whole.
func TestReopenAfterPartOfOverwriting(t *testing.T) {
	old, data := strings.Repeat("o", 20_000), strings.Repeat("d", 20_000)
	for part, want := range map[string]fuse.Status{data[:8192] + old[8192:]: fuse.OK,
		strings.Repeat("another", 3000): fuse.Status(syscall.ESTALE)} {
		for _, written := range []bool{false, true} { // here before
			t.Run(fmt.Sprint(part[:7], written), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := mountScripted(t, time.Minute, sftptest.Script{})
					s.server.Files.WriteFile("/file", []byte(old))
					o := s.open(t, "file")
					if written {
						o.write(0, old)
						if status := o.sync(); status != fuse.OK {
							t.Error(status)
						}
					}
					time.Sleep(time.Minute) // the file gets another time
					o.writePart(part, data, want)
				})
			})
		}
	}
}

// A server that is killed while it appends leaves a part. The rest is appended then, unless so
// little is there that it may be another program's.
func TestAppendedInPart(t *testing.T) {
	data := strings.Repeat("what the program appends", 400)
	for part, want := range map[int]fuse.Status{5000: fuse.OK, 4: fuse.EIO} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mountScripted(t, time.Minute, sftptest.Script{})
				s.server.Files.WriteFile("/log", []byte("before "))
				o := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY|os.O_APPEND)
				s.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Times: 1,
					Do: sftptest.Call("append a part", func(sftptest.Request) {
						if err := s.server.Files.Append("/log", []byte(data[:part])); err != nil {
							t.Error(err)
						}
					})}, sftptest.Fault{On: wire.TypeWrite, Times: 1, Do: sftptest.Hangup()})
				o.write(7, data)
				if status := o.sync(); status != want {
					t.Error(status)
				}
				got, _ := s.server.Files.ReadFile("/log")
				if whole := want == fuse.OK; (string(got) == "before "+data) != whole {
					t.Errorf("the host has %d bytes, whole: %t", len(got), !whole)
				}
				if s.budget.free != bufferSize {
					t.Errorf("%d bytes of the buffer are free", s.budget.free)
				}
			})
		})
	}
}

// When an answer is lost, it is found out whether the data was appended, although another program
// appends through the same mount.
func TestAppendedByTwo(t *testing.T) {
	for made, lose := range map[string]sftptest.Action{"made": sftptest.Truncate(0),
		"not made": sftptest.Hangup()} {
		t.Run(made, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mountScripted(t, time.Minute, sftptest.Script{})
				s.server.Files.WriteFile("/log", nil)
				one := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY|os.O_APPEND)
				two := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY|os.O_APPEND)
				want := ""
				for i, o := range []*opened{one, two, one, two} {
					if i == 2 {
						s.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Times: 1, Do: lose})
					}
					o.write(len(want), "line\n")
					want += "line\n"
					if status := o.sync(); status != fuse.OK {
						t.Errorf("line %d: %v", i, status)
					}
				}
				if data, err := s.server.Files.ReadFile("/log"); string(data) != want {
					t.Errorf("the host has %q, %v", data, err)
				}
			})
		})
	}
}

// A host that carries out an append after its connection has been lost does so once.
func TestAppendedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := mountFile(t).openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_APPEND)
		o.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Times: 1, Do: sftptest.Hangup()})
		o.write(8, " and more")
		go func() {
			time.Sleep(lateTime + idleTime - time.Millisecond)
			o.server.Files.Append("/file", []byte(" and more"))
		}()
		time.Sleep(idleTime) // after which it is sent
		if status := o.sync(); status != fuse.OK {
			t.Error(status)
		}
		if data, err := o.server.Files.ReadFile("/file"); string(data) != "contents and more" {
			t.Errorf("the host has %q, %v", data, err)
		}
	})
}

// The same holds if the host comes back later than anything waits for it.
func TestAppendedBeforeALongOutage(t *testing.T) {
	for made, lose := range map[string]sftptest.Action{"made": sftptest.Truncate(0),
		"not made": sftptest.Hangup()} {
		t.Run(made, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t).openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_APPEND)
				o.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Times: 1, Do: lose})
				o.mu.Lock()
				o.quiet = true // for the next connection
				o.mu.Unlock()
				o.write(8, " and more")
				time.Sleep(3 * scriptedTimeout)
				o.restore()
				time.Sleep(time.Minute)
				if status := o.sync(); status != fuse.OK {
					t.Error(status)
				}
				if data, err := o.server.Files.ReadFile("/file"); string(data) != "contents and more" {
					t.Errorf("the host has %q, %v", data, err)
				}
			})
		})
	}
}

// The same holds for the answer to the first write, before which nothing proves which file it is.
func TestReopenAfterFirstAnswer(t *testing.T) {
	for made, lose := range map[string]sftptest.Action{"made": sftptest.Truncate(0),
		"not made": sftptest.Hangup()} {
		t.Run(made, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mountScripted(t, 0, sftptest.Script{})
				s.server.Files.WriteFile("/file", []byte("contents"))
				o := s.open(t, "file")
				s.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Times: 1, Do: lose})
				o.write(8, " and more")
				if status := o.sync(); status != fuse.OK {
					t.Error(status)
				}
				if n := len(s.server.Requests(wire.TypeInit)); n != 2 {
					t.Errorf("%d connections", n)
				}
				if data, err := s.server.Files.ReadFile("/file"); string(data) != "contents and more" {
					t.Errorf("the host has %q, %v", data, err)
				}
			})
		})
	}
}

// What the host makes while the link is down for a while does not mislead about its clock.
func TestLearnClock(t *testing.T) {
	f, now := new(FS), time.Now()
	at := func(ahead int64) uint32 { return uint32(now.Unix() + ahead) }
	for _, step := range []struct {
		what  string
		mtime uint32
		asked time.Time
		want  int64
	}{
		{"clocks agree", at(0), now, 0},
		{"an answer 20 s late, the file made at its beginning", at(-20), now.Add(-20 * time.Second),
			0},
		{"and at its end", at(0), now.Add(-20 * time.Second), 0},
		{"the host is an hour ahead", at(3600), now, 3600},
		{"and an answer is late", at(3590), now.Add(-20 * time.Second), 3600},
		{"and it sends no time", 0, now, 3600},
		{"the host is set right", at(0), now, 0},
	} {
		f.learnClock(step.mtime, step.asked)
		got, want := time.Duration(f.clockSkew.Load()), time.Duration(step.want)*time.Second
		if (got - want).Abs() > time.Second {
			t.Errorf("%s: %v ahead, want %v", step.what, got, want)
		}
	}
}

// A program that reads a file that another replaces on the host learns the size of the one that it
// has open, not of the other.
func TestSizeOfReplaced(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", []byte("the one that is open"))
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	s.server.Files.WriteFile("/new", []byte("another"))
	if err := s.FS.link.client.PosixRename("/new", "/file"); err != nil {
		t.Fatal(err)
	}
	in := fuse.GetAttrIn{InHeader: o.header, Flags_: fuse.FUSE_GETATTR_FH, Fh_: o.fh}
	var attr fuse.AttrOut
	if status := s.GetAttr(nil, &in, &attr); status != fuse.OK || attr.Size != 20 {
		t.Errorf("size %d, %v", attr.Size, status)
	}
	if data, status := o.read(30); status != fuse.OK || data != "the one that is open" {
		t.Errorf("read: %q, %v", data, status)
	}
	other := s.open(t, "file")
	if attr, status := other.getAttr(); status != fuse.OK || attr.Size != 7 {
		t.Errorf("by its name: size %d, %v", attr.Size, status)
	}
	if data, status := other.read(30); status != fuse.OK || data != "another" {
		t.Errorf("by its name: %q, %v", data, status)
	}
	if attr, status := o.getAttr(); status != fuse.OK || attr.Size != 20 ||
		o.header.NodeId == other.header.NodeId {
		t.Errorf("what is open: size %d, %v", attr.Size, status)
	}
}

// A connection that is lost while it is found out whether the data was appended says nothing about
// that: the next one is asked.
func TestAppendedAndLostAgain(t *testing.T) {
	for name, faults := range map[string][]sftptest.Fault{
		"looking at the size": {{On: wire.TypeWrite, Times: 1, Do: sftptest.Hangup()},
			{On: wire.TypeFstat, Times: 1, Do: sftptest.Hangup()}},
		"reading it": {{On: wire.TypeWrite, Times: 1, Do: sftptest.Truncate(0)},
			{On: wire.TypeRead, Times: 1, Do: sftptest.Hangup()}},
		"opening it": {{On: wire.TypeWrite, Times: 1, Do: sftptest.Truncate(0)},
			{On: wire.TypeOpen, Skip: 1, Times: 1, Do: sftptest.Hangup()}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t).openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_APPEND)
				before := len(o.server.Requests(wire.TypeInit))
				o.server.AddFaults(faults...)
				o.write(8, " and more")
				if status := o.sync(); status != fuse.OK {
					t.Error(status)
				}
				if data, err := o.server.Files.ReadFile("/file"); string(data) != "contents and more" {
					t.Errorf("the host has %q, %v", data, err)
				}
				if n := len(o.server.Requests(wire.TypeInit)) - before; n != 2 {
					t.Errorf("%d connections were lost", n)
				}
			})
		})
	}
}

// A file that another program has emptied by opening it can be reopened, although what was written
// to it before is gone.
func TestReopenEmptied(t *testing.T) {
	s := mountScripted(t, 0, sftptest.Script{})
	s.server.Files.WriteFile("/file", nil)
	o := s.open(t, "file")
	o.write(0, "contents")
	if status := o.sync(); status != fuse.OK {
		t.Fatal(status)
	}
	s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_TRUNC)
	s.cut()
	o.write(0, "new")
	if status := o.sync(); status != fuse.OK {
		t.Errorf("written over the next connection: %v", status)
	}
	if data, err := s.server.Files.ReadFile("/file"); string(data) != "new" {
		t.Errorf("the host has %q, %v", data, err)
	}
}

// A file whose time was in the future gets an earlier one when it is written, and is still the same
// file.
func TestReopenFromTheFuture(t *testing.T) {
	for _, flags := range []int{os.O_RDWR, os.O_WRONLY | os.O_APPEND} {
		synctest.Test(t, func(t *testing.T) {
			s := mountScripted(t, 0, sftptest.Script{})
			s.server.Files.WriteFile("/file", []byte("one"))
			if err := s.server.Files.SetModTime("/file", time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", flags)
			for i, data := range []string{" two", " three"} {
				o.write(3+4*i, data)
				if status := o.sync(); status != fuse.OK {
					t.Errorf("%x: %q: %v", flags, data, status)
				}
				s.cut()
			}
			if data, err := s.server.Files.ReadFile("/file"); string(data) != "one two three" {
				t.Errorf("%x: the host has %q, %v", flags, data, err)
			}
		})
	}
}
