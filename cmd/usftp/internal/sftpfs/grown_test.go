//go:build linux || darwin

package sftpfs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// mountAsOpened mounts a directory of a server that answers EOF to what is read beyond the size
// that a file had when it was opened, as ProFTPD does.
func mountAsOpened(t *testing.T) *scripted {
	s := new(scripted)
	sizes := make(map[string]uint64) // by handle
	var last uint64                  // of the file that is being opened
	intercept := func(r sftptest.Request) []sftptest.Action {
		switch r.Type {
		case wire.TypeOpen:
			attrs, _ := s.server.Files.Lstat(r.Path)
			last = attrs.Size
		case wire.TypeRead:
			if _, known := sizes[r.Handle]; !known {
				sizes[r.Handle] = last
			}
			if r.Offset > sizes[r.Handle] {
				return []sftptest.Action{sftptest.Refuse(wire.EOF, "End of file")}
			}
		case wire.TypeClose:
			delete(sizes, r.Handle)
		}
		return nil
	}
	s.server = sftptest.NewServer(t, sftptest.Script{Intercept: intercept})
	s.mount(t, 0)
	return s
}

// A program that makes a file longer and maps it reads zeros there, however many pages it reads at
// once. Without them it would get SIGBUS.
func TestReadWhatTruncateAdded(t *testing.T) {
	s := mountAsOpened(t)
	s.server.Files.WriteFile("/file", []byte("short"))
	o := s.open(t, "file")
	if status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE,
		Size: 1 << 20}); status != fuse.OK {
		t.Fatal(status)
	}
	const n = 4096
	var calls sync.WaitGroup
	for at := 0; at < 1<<20; at += 1 << 18 {
		calls.Go(func() {
			data, status := o.readAt(at+n, n)
			if status != fuse.OK || data != strings.Repeat("\x00", n) {
				t.Errorf("at %d: %d bytes, %v", at, len(data), status)
			}
		})
	}
	calls.Wait()
	if data, status := o.readAt(0, 7); status != fuse.OK || data != "short\x00\x00" {
		t.Errorf("read %q, %v", data, status)
	}
}

// A program that reads a log reads what was added since it opened it; one that has opened a file
// that another one has replaced does not read the other one.
func TestReadWhatOthersAdded(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprintf("replaced %t", replaced), func(t *testing.T) {
			s := mountAsOpened(t)
			s.server.Files.WriteFile("/log", []byte("first\n"))
			o := s.openFlags(t, fuse.FUSE_ROOT_ID, "log", os.O_RDONLY)
			want := ""
			for i := range 3 {
				added := fmt.Sprintf("line %d\n", i)
				if err := s.server.Files.Append("/log", []byte(added)); err != nil {
					t.Fatal(err)
				}
				want += added
			}
			if replaced {
				if err := s.server.Files.Rename("/log", "/log.1"); err != nil {
					t.Fatal(err)
				}
				s.server.Files.WriteFile("/log", []byte(strings.Repeat("another file\n", 9)))
				s.server.Files.SetModTime("/log", time.Unix(2e9, 0))
				want = " "
			}
			var attr fuse.AttrOut
			in := &fuse.GetAttrIn{InHeader: o.header, Flags_: fuse.FUSE_GETATTR_FH, Fh_: o.fh}
			if status := o.GetAttr(nil, in, &attr); status != fuse.OK || attr.Size != 27 {
				t.Fatalf("size %d, %v", attr.Size, status)
			}
			if data, status := o.readAt(7, page); status != fuse.OK || data != want[1:] {
				t.Errorf("read %q, %v", data, status)
			}
		})
	}
}
