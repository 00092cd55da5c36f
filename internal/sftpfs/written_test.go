//go:build linux || darwin

package sftpfs

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
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
