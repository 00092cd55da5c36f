//go:build linux || darwin

package sftpfs

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A program that goes on writing to a file that cannot be reopened gets the error, and does not
// wait for ever for room that nothing makes. Nor do those that write other files.
func TestWriteToReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mountScripted(t, time.Minute, sftptest.Script{})
		s.server.Files.WriteFile("/file", []byte("old"))
		s.server.Files.WriteFile("/other", nil)
		o, other := s.open(t, "file"), s.open(t, "other")
		o.write(0, "new")
		if status := o.sync(); status != fuse.OK {
			t.Fatal(status)
		}
		s.cut()
		s.server.Files.WriteFile("/file", []byte("another"))
		block := bytes.Repeat([]byte("x"), 256<<10)
		began := time.Now()
		status := fuse.OK
		for off := 0; off < 4<<20 && status == fuse.OK; off += len(block) {
			in := fuse.WriteIn{InHeader: o.header, Fh: o.fh, Offset: uint64(off),
				Size: uint32(len(block))}
			_, status = o.Write(nil, &in, block)
		}
		if took := time.Since(began); status != fuse.Status(syscall.ESTALE) || took > time.Minute {
			t.Errorf("%v after %v", status, took)
		}
		other.write(0, "mine")
		if status := other.sync(); status != fuse.OK {
			t.Error(status)
		}
		if data, err := s.server.Files.ReadFile("/file"); string(data) != "another" {
			t.Errorf("the host has %d bytes, %v", len(data), err)
		}
	})
}

// A program that has seen that a file was changed reads the new contents.
func TestReadAheadOfChanged(t *testing.T) {
	o, data := openLarge(t)
	o.wantRead(data, 0)
	o.wantRead(data, page) // and reads ahead
	const at = 2*page + 1000
	copy(data[at:], "new")
	other, err := o.FS.link.client.OpenFile("/file", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.WriteAt([]byte("new"), at); err != nil {
		t.Fatal(err)
	}
	if err := o.server.Files.SetModTime("/file", time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.renew(o.ctx, o.tree.get(o.header.NodeId)); err != nil { // as stat does
		t.Fatal(err)
	}
	o.wantRead(data, 2*page)
}

// A file that took the place of another, before anything that was written to that had arrived, is
// not written to.
func TestReplacedBeforeWritten(t *testing.T) {
	for what, before := range map[string]bool{"replaced, then written": false,
		"written, then replaced": true} {
		s := mountScripted(t, 0, sftptest.Script{})
		s.server.Files.WriteFile("/file", []byte("mine"))
		o := s.open(t, "file")
		if before {
			o.write(0, "more")
		}
		s.server.Files.WriteFile("/file", []byte("another file of the name"))
		s.cut()
		if !before {
			o.write(0, "more")
		}
		if status := o.sync(); status != fuse.Status(syscall.ESTALE) {
			t.Errorf("%s: %v", what, status)
		}
		if data, _ := s.server.Files.ReadFile("/file"); string(data) != "another file of the name" {
			t.Errorf("%s: the host has %q", what, data)
		}
	}
}

// Data whose loss is noticed only when there is a new connection is sent over that.
func TestLostLate(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{})
	s.server.Files.WriteFile("/file", nil)
	o := s.open(t, "file")
	gate := new(sftptest.Gate)
	s.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Do: sftptest.Hold(gate)})
	o.write(0, strings.Repeat("x", extentSize))
	gate.Wait(1)
	file := s.files.get(o.fh).file
	file.mu.Lock()
	lost := file.extents[0]
	file.mu.Unlock()
	file.answered(lost, usftp.ErrClosed)
	gate.Wait(2)
	gate.Open()
	if status := o.sync(); status != fuse.OK {
		t.Error(status)
	}
}
