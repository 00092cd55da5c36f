//go:build linux || darwin

package sftpfs

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// All that a host refuses of a file is kept in one rescue file, at its offsets, whenever the
// program learns of it: what is not listed there is on the host.
func TestRescueIsComplete(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", nil)
	const refused, size = 600_000, 3 << 20
	s.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, From: refused, To: 1 << 40,
		Do: sftptest.Refuse(wire.Failure, "the disk is full")})
	o := s.open(t, "file")
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i>>9) | 1
	}
	told, written := 0, 0
	for off := 0; off < size; off += page {
		in := fuse.WriteIn{InHeader: o.header, Fh: o.fh, Offset: uint64(off), Size: page}
		_, status := o.Write(nil, &in, data[off:off+page])
		for ; status != fuse.OK; told++ { // a program that goes on nevertheless
			_, status = o.Write(nil, &in, data[off:off+page])
		}
		written = off + page
	}
	if o.sync() != fuse.OK {
		told++
	}
	o.Flush(nil, &fuse.FlushIn{InHeader: o.header, Fh: o.fh})
	if told == 0 {
		t.Error("the program has not learned of it")
	}
	lists, err := filepath.Glob(filepath.Join(s.rescues, "*.ranges"))
	if err != nil || len(lists) != 1 {
		t.Fatalf("%d rescue files, %v", len(lists), err)
	}
	kept, err := os.ReadFile(strings.TrimSuffix(lists[0], ".ranges"))
	if err != nil {
		t.Fatal(err)
	}
	there, err := s.server.Files.ReadFile("/file")
	if err != nil {
		t.Fatal(err)
	}
	whole := append(there, make([]byte, written-len(there))...)
	list, err := os.Open(lists[0])
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	lines := bufio.NewScanner(list)
	lines.Scan()
	if lines.Text() != ":/file" {
		t.Errorf("the list begins with %q", lines.Text())
	}
	for lines.Scan() {
		var off, length int
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &off, &length); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		copy(whole[off:off+length], kept[off:])
	}
	if !bytes.Equal(whole, data) {
		t.Error("something is neither on the host nor in the rescue file")
	}
}

// TestFsyncAfterARefusedWrite: fsync and each close before it fail although a write has returned
// the error. The kernel may have hidden that one: it says nothing of a failed part of a write after
// a part that succeeded.
func TestFsyncAfterARefusedWrite(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", nil)
	s.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, To: 1,
		Do: sftptest.Refuse(wire.Failure, "the disk is full")})
	o := s.open(t, "file")
	status := fuse.OK
	for off := uint64(0); status == fuse.OK; off += page {
		in := fuse.WriteIn{InHeader: o.header, Fh: o.fh, Offset: off, Size: page}
		_, status = o.Write(nil, &in, make([]byte, page))
	}
	for range 2 { // a forked child closes it, too
		if o.Flush(nil, &fuse.FlushIn{InHeader: o.header, Fh: o.fh}) == fuse.OK {
			t.Error("close says that everything has arrived")
		}
	}
	if o.sync() == fuse.OK {
		t.Error("fsync says that everything has arrived")
	}
	if status := o.sync(); status != fuse.OK {
		t.Errorf("fsync says once more what it has said: %v", status)
	}
}

// A rescue file's name is text on every system: macOS makes no file whose name is not.
func TestRescueNameIsText(t *testing.T) {
	f := &FS{options: Options{RescueDir: t.TempDir(), HostName: "host"}}
	file, err := f.newRescue("/" + strings.Repeat("é", 100))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if name := filepath.Base(file.Name()); !utf8.ValidString(name) {
		t.Errorf("%q", name)
	}
}

// TestEachCloseFails: a process that shares a descriptor may have made the close that failed.
func TestEachCloseFails(t *testing.T) {
	for name, fault := range map[string]sftptest.Fault{
		"its data is refused": {On: wire.TypeWrite, Times: 1, Do: sftptest.Refuse(wire.Failure, "")},
		"its end is refused":  {On: wire.TypeClose, Times: 1, Do: sftptest.Fail(wire.Failure, "")},
	} {
		for _, version := range []string{"", openSSH} {
			s := &scripted{version: version, server: sftptest.NewServer(t, sftptest.Script{})}
			s.mount(t, time.Minute)
			s.server.AddFaults(fault)
			o := s.create(t, "file")
			o.write(0, "data")
			for i := range 2 {
				if o.flush() == fuse.OK {
					t.Errorf("%s (%q): close %d says that everything has arrived", name, version, i)
				}
			}
		}
	}
}
