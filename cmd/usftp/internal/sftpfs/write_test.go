//go:build linux || darwin

package sftpfs

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A new file that was appended to, and whose data has already arrived when it is closed, does not
// look empty then.
func TestSizeOfAppendedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountOpenSSH(t, time.Millisecond, time.Minute)
		var made fuse.CreateOut
		in := &fuse.CreateIn{InHeader: *root(), Mode: syscall.S_IFREG | 0o600,
			Flags: uint32(os.O_WRONLY | os.O_CREATE | os.O_EXCL | os.O_APPEND)}
		if status := s.Create(nil, in, "log", &made); status != fuse.OK {
			t.Fatal(status)
		}
		o := &opened{s, t, fuse.InHeader{NodeId: made.NodeId}, made.Fh}
		o.write(0, "contents")
		if attr, status := o.getAttr(); status != fuse.OK || attr.Size != 8 {
			t.Errorf("open: %d bytes, %v", attr.Size, status)
		}
		time.Sleep(2 * idleTime)
		if status := s.Flush(nil, &fuse.FlushIn{InHeader: o.header, Fh: o.fh}); status != fuse.OK {
			t.Error(status)
		}
		if attr, status := o.getAttr(); status != fuse.OK || attr.Size != 8 {
			t.Errorf("closed: %d bytes, %v", attr.Size, status)
		}
	})
}

// A program that writes single bytes here and there does not make the list of what the host has not
// acknowledged long.
func TestScatteredWrites(t *testing.T) {
	const writes, most = 2000, bufferSize/extentCost + 1
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", make([]byte, 2*writes))
	o := s.open(t, "file")
	file := s.files.get(o.fh).file
	want := make([]byte, 2*writes)
	for i := range writes {
		o.write(2*i, "x")
		want[2*i] = 'x'
		file.mu.Lock()
		n := len(file.extents)
		file.mu.Unlock()
		if n > most {
			t.Fatalf("after %d writes: %d extents, at most %d fit in the buffer", i, n, most)
		}
	}
	if status := o.sync(); status != fuse.OK {
		t.Error(status)
	}
	if data, err := s.server.Files.ReadFile("/file"); !bytes.Equal(data, want) {
		t.Errorf("the host has something else: %v", err)
	}
}

// What two programs append in turn is sent together, in order: each request to append waits for its
// answer.
func TestAppendedInTurn(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/log", nil)
	one := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY|os.O_APPEND)
	two := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY|os.O_APPEND)
	want := ""
	for i := range 100 {
		line := fmt.Sprintf("line %d\n", i)
		[]*opened{one, two}[i%2].write(len(want), line)
		want += line
	}
	if status := one.sync(); status != fuse.OK {
		t.Error(status)
	}
	if n := len(s.server.Requests(wire.TypeWrite)); n > 2 { // 2 if it took a second
		t.Errorf("%d requests", n)
	}
	if data, err := s.server.Files.ReadFile("/log"); string(data) != want {
		t.Errorf("the host has %q, %v", data, err)
	}
}

// A server may ignore the append flag, as pkg/sftp's does: each request says where the file ends,
// whoever else appends to it.
func TestAppendSaysWhere(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/log", []byte("contents"))
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY|os.O_APPEND)
	want := []uint64{8, 17, 18 + 7}
	for i, data := range []string{" and more", "!", "mine"} {
		if data == "mine" {
			s.server.Files.Append("/log", []byte("another"))
		}
		o.write(int(want[i]), data)
		if status := o.sync(); status != fuse.OK {
			t.Fatal(status)
		}
	}
	var got []uint64
	for _, r := range s.server.Requests(wire.TypeWrite) {
		got = append(got, r.Offset)
	}
	if !slices.Equal(got, want) {
		t.Errorf("written at %d, want %d", got, want)
	}
}

// What a program appends comes after what another has written through the same mount, and when the
// answer is lost it is found out whether the data was appended, although the answer to the other
// write had not come when it was sent.
func TestAppendedAfterAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountOpenSSH(t, time.Second, time.Minute)
		s.server.Files.WriteFile("/log", []byte("one,"))
		writer := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY)
		appender := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY|os.O_APPEND)
		s.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Skip: 1, Times: 1,
			Do: sftptest.Truncate(0)})
		writer.write(4, "two,")
		appender.write(8, "three")
		if status := appender.sync(); status != fuse.OK {
			t.Error(status)
		}
		if data, err := s.server.Files.ReadFile("/log"); string(data) != "one,two,three" {
			t.Errorf("the host has %q, %v", data, err)
		}
		if n := len(s.server.Requests(wire.TypeInit)); n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// A new file that another program has appended to, or copied to on the host, does not look as if it
// held only what the program that made it writes at last.
func TestSizeOfFileOfTwo(t *testing.T) {
	const longer = "something longer"
	for what, change := range map[string]func(o, other *opened){
		"appended": func(_, other *opened) { other.write(0, longer) },
		"copied": func(o, other *opened) {
			o.server.Files.WriteFile("/from", []byte(longer))
			if n, status := o.open(o.t, "from").copyTo(other, 0, 0, len(longer)); status != fuse.OK {
				o.t.Fatal(n, status)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := mountOpenSSH(t, time.Millisecond, time.Minute)
			o := s.create(t, "file")
			flags := os.O_WRONLY
			if what == "appended" {
				flags |= os.O_APPEND
			}
			other := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", flags)
			change(o, other)
			if status := other.flush(); status != fuse.OK {
				t.Fatal(status)
			}
			s.Release(nil, &fuse.ReleaseIn{InHeader: other.header, Fh: other.fh})
			synctest.Wait()
			time.Sleep(time.Second)
			o.write(0, "x")
			o.getAttr() // the time that it shows is set when the file is closed
			if status := o.flush(); status != fuse.OK {
				t.Fatal(status)
			}
			if attr, status := o.getAttr(); status != fuse.OK || attr.Size != uint64(len(longer)) {
				t.Errorf("%s: %d bytes, %v", what, attr.Size, status)
			}
		})
	}
}

// What a program writes to mapped memory of a file that it has open to be appended to has its place
// in the file, and is not appended. Neither is what it writes when it has taken O_APPEND back.
func TestInPlaceWhereItIsAppended(t *testing.T) {
	kinds := []fuse.WriteIn{{WriteFlags: fuse.WRITE_CACHE}}
	if runtime.GOOS == "linux" {
		kinds = append(kinds, fuse.WriteIn{Flags: uint32(os.O_RDWR)})
	}
	for i := range 2 * len(kinds) {
		in, lose := kinds[i/2], i%2 == 0
		synctest.Test(t, func(t *testing.T) {
			s := mountScripted(t, time.Minute, sftptest.Script{})
			s.server.Files.WriteFile("/file", []byte("contents"))
			o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDWR|os.O_APPEND)
			if lose {
				s.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Skip: 1, Times: 1,
					Do: sftptest.Truncate(0)})
			}
			o.write(8, ", more")
			in.InHeader, in.Fh, in.Size = o.header, o.fh, 3
			if n, status := s.Write(nil, &in, []byte("CON")); n != 3 || status != fuse.OK {
				t.Fatal(n, status)
			}
			o.write(14, " and more")
			if status := o.flush(); status != fuse.OK {
				t.Error(status)
			}
			if data, err := s.server.Files.ReadFile("/file"); err != nil ||
				string(data) != "CONtents, more and more" {
				t.Errorf("the host has %q, %v", data, err)
			}
			s.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
			synctest.Wait()
			opened, closed := s.server.Requests(wire.TypeOpen), s.server.Requests(wire.TypeClose)
			if !lose && (len(opened) != 2 || len(closed) != 2) {
				t.Errorf("opened %d times, closed %d times", len(opened), len(closed))
			}
		})
	}
}

// ProFTPD as it is installed opens no existing file to be appended to (AllowStoreRestart): the file
// is opened to be written, and each request says where it ends.
func TestAppendWhereThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusing := func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeOpen && (r.Flags&wire.OpenAppend != 0 ||
				r.Flags&wire.OpenWrite != 0 && r.Path == "/closed") {
				return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "Permission denied")}
			}
			return nil
		}
		s := mountScripted(t, time.Minute, sftptest.Script{Intercept: refusing})
		s.server.Files.WriteFile("/log", []byte("contents"))
		s.server.Files.WriteFile("/closed", nil)
		var out fuse.OpenOut
		in := &fuse.OpenIn{InHeader: *s.lookup(t, root(), "closed"),
			Flags: uint32(os.O_WRONLY | os.O_APPEND)}
		if status := s.Open(nil, in, &out); status != fuse.EACCES {
			t.Errorf("a file that may not be written is opened: %v", status)
		}
		o := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_WRONLY|os.O_APPEND)
		for _, data := range []string{" and more", "!"} {
			o.write(8, data)
			if status := o.sync(); status != fuse.OK {
				t.Fatal(status)
			}
			s.server.Files.Append("/log", []byte(" (another)"))
		}
		const want = "contents and more (another)! (another)"
		if data, err := s.server.Files.ReadFile("/log"); string(data) != want {
			t.Errorf("the host has %q, %v", data, err)
		}
	})
}
