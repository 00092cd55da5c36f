//go:build linux || darwin

package sftpfs

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
)

// extract makes the calls that Linux makes for one file of `tar x`.
func (s *scripted) extract(t *testing.T, dir uint64, name string) {
	t.Helper()
	ok := func(what string, status fuse.Status) {
		t.Helper()
		if status != fuse.OK {
			t.Fatalf("%s: %s: %v", name, what, status)
		}
	}
	above := fuse.InHeader{NodeId: dir}
	var attr fuse.AttrOut
	ok("GETATTR", s.GetAttr(nil, &fuse.GetAttrIn{InHeader: above}, &attr))
	var entry fuse.EntryOut
	if status := s.Lookup(nil, &above, name, &entry); entry.NodeId != 0 ||
		status != fuse.OK && status != fuse.ENOENT {
		t.Fatalf("%s: LOOKUP: %v, node %d", name, status, entry.NodeId)
	}
	flags := uint32(os.O_WRONLY | os.O_CREATE | os.O_EXCL)
	var made fuse.CreateOut
	ok("CREATE", s.Create(nil, &fuse.CreateIn{InHeader: above, Flags: flags,
		Mode: syscall.S_IFREG | 0o600}, name, &made))
	o := &opened{s, t, fuse.InHeader{NodeId: made.NodeId}, made.Fh}
	o.write(0, string(make([]byte, 4096)))
	set := func(what string, in fuse.SetAttrInCommon) {
		t.Helper()
		in.InHeader = o.header
		ok(what, s.SetAttr(nil, &fuse.SetAttrIn{SetAttrInCommon: in}, &attr))
	}
	set("utimensat", fuse.SetAttrInCommon{Valid: fuse.FATTR_MTIME, Mtime: 1e9})
	_, status := o.getAttr()
	ok("GETATTR", status)
	set("fchown", fuse.SetAttrInCommon{Valid: fuse.FATTR_UID | fuse.FATTR_GID, Owner: attr.Owner})
	set("fchmod", fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE, Mode: 0o644})
	ok("FLUSH", s.Flush(nil, &fuse.FlushIn{InHeader: o.header, Fh: o.fh}))
	s.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
}

// A small file of `tar x` takes two round trips: one to open it, one to write and close it. The
// list of the directory and its attributes are kept fresh meanwhile.
func TestRoundTripsOfTar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip, files = 50 * time.Millisecond, 500
		s := mountOpenSSH(t, trip, time.Second)
		var dir fuse.EntryOut
		in := &fuse.MkdirIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}, Mode: 0o755}
		if status := s.Mkdir(nil, in, "dir", &dir); status != fuse.OK {
			t.Fatal(status)
		}
		began := time.Now()
		for i := range files {
			s.extract(t, dir.NodeId, fmt.Sprint("file", i))
		}
		if took := time.Since(began); took > 2*files*trip {
			t.Errorf("%d files took %v: %.2f round trips a file", files, took,
				took.Seconds()/trip.Seconds()/files)
		}
	})
}

// Attributes of a directory that were requested before a name in it was changed here do not take
// its modification time back, nor do those whose time is hardly before the one that was guessed:
// tar reports a directory whose status changes while it is read.
func TestTouchedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountScripted(t, time.Second, sftptest.Script{})
		root := s.tree.root
		old, asked := root.attrs, time.Now()
		time.Sleep(10 * time.Second)
		s.touched(root)
		root.learnAttrs(old, asked)
		if got, _, _ := s.known(root); got.mtime < old.mtime+10 {
			t.Errorf("the time went back by %d s", old.mtime+10-got.mtime)
		}
		shown, _, _ := s.known(root)
		host := shown
		host.mtime--
		if got := root.learnAttrs(host, time.Now()); got != shown {
			t.Errorf("a second earlier on the host: %+v, before %+v", got, shown)
		}
		stat := usftp.FileStat{Mode: syscall.S_IFDIR | 0o755, Size: 60}
		empty := attrsOf(&stat)
		if stat.Size = 860; attrsOf(&stat) != empty { // as on tmpfs with 40 more entries
			t.Errorf("a directory grows from %+v to %+v", empty, attrsOf(&stat))
		}
		time.Sleep(10 * time.Second)
		root.learnAttrs(old, time.Now())
		if got, _, _ := s.known(root); got.mtime != old.mtime {
			t.Errorf("the time is %d, not the host's, %d", got.mtime, old.mtime)
		}
	})
}
