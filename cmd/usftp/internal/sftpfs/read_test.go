//go:build linux || darwin

package sftpfs

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// page is how much the tests read at a time, as the kernel does.
const page = 128 << 10

// openLarge opens a file of 2 MiB on a server with faults.
func openLarge(t *testing.T, faults ...sftptest.Fault) (o *opened, data []byte) {
	t.Helper()
	s := mountScripted(t, time.Minute, sftptest.Script{})
	data = make([]byte, 2<<20)
	for i := range data {
		data[i] = byte(i >> 10)
	}
	s.server.Files.WriteFile("/file", data)
	s.server.AddFaults(faults...)
	return s.open(t, "file"), data
}

func (o *opened) reader() *reader { return &o.files.get(o.fh).reader }

// wantRead reads a page and compares it.
func (o *opened) wantRead(data []byte, off int) {
	o.t.Helper()
	want := data[off : off+page]
	if got, status := o.readAt(off, page); status != fuse.OK || !bytes.Equal([]byte(got), want) {
		o.t.Errorf("%d bytes at %d: %d, %v", page, off, len(got), status)
	}
}

// What was requested for a program that waits for a stalled link is not dropped to make room for
// others, however long it waits.
func TestWaitingIsNotIdle(t *testing.T) {
	gate := new(sftptest.Gate)
	o, data := openLarge(t, sftptest.Fault{On: wire.TypeRead, Skip: 1, Do: sftptest.Hold(gate)})
	defer gate.Open()
	o.wantRead(data, 0) // by itself: one READ
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		o.wantRead(data, page)
	}()
	gate.Wait(2) // what is waited for, and what is read ahead
	before := o.reader().requested()
	gate.Wait(len(before))
	o.reader().dropIdle(time.Now().Add(time.Hour))
	if after := o.reader().requested(); len(after) != len(before) || len(after) < 2 {
		t.Errorf("%d of %d chunks are left", len(after), len(before))
	}
	gate.Open()
	<-waited
	if n := len(o.server.Requests(wire.TypeRead)); n != 1+len(before) {
		t.Errorf("%d READs for the first page and %d chunks", n, len(before))
	}
	o.reader().dropIdle(time.Now().Add(time.Hour))
	if left := o.reader().requested(); len(left) != 0 {
		t.Errorf("%d chunks are kept for a program that does not read", len(left))
	}
}

// Memory counts until the answers for which it was set aside have arrived, although nobody wants
// them any more.
func TestDroppedReadsCount(t *testing.T) {
	gate := new(sftptest.Gate)
	o, data := openLarge(t, sftptest.Fault{On: wire.TypeRead, From: 2 * chunkSize, To: 1 << 40,
		Do: sftptest.Hold(gate)})
	defer gate.Open()
	o.wantRead(data, 0)
	o.wantRead(data, page) // and reads ahead
	chunks := o.reader().requested()
	held := int64(0)
	for _, c := range chunks {
		select {
		case <-c.done:
		default:
			held += chunkSize
		}
	}
	if held == 0 {
		t.Fatal("nothing was read ahead")
	}
	o.reader().drop()
	if counted := o.reading.bytes.Load(); counted < held {
		t.Errorf("%d bytes count, %d are on their way", counted, held)
	}
	gate.Open()
	for _, c := range chunks {
		<-c.done
	}
	if counted := o.reading.bytes.Load(); counted != 0 {
		t.Errorf("%d bytes count when nothing is left", counted)
	}
}

// What was read ahead while written data was still on its way does not hide that data.
func TestReadAheadBesideWrites(t *testing.T) {
	o, data := openLarge(t)
	o.wantRead(data, 0)
	o.wantRead(data, page)
	const at = 3*page + 1000
	o.write(at, "new")
	copy(data[at:], "new")
	o.wantRead(data, 2*page) // and reads ahead over it
	o.wantRead(data, 3*page)
}

// A failure of what was read ahead is reported once: when the program tries again, the host is
// asked again.
func TestReadAheadFailsOnce(t *testing.T) {
	o, data := openLarge(t, sftptest.Fault{On: wire.TypeRead, Skip: 1, Times: 1,
		Do: sftptest.Refuse(wire.Failure, "try again")})
	o.wantRead(data, 0)
	if _, status := o.readAt(page, page); status != fuse.Status(syscall.EIO) {
		t.Errorf("the failure: %v", status)
	}
	o.wantRead(data, page)
}

// Small reads that are not in order ask for what they want and nothing else, even near each other:
// a program that reads the headers in an archive skips what lies between them.
func TestRandomReadsAskForNoMore(t *testing.T) {
	for _, step := range []int{64 << 10, 300_000, -300_000} {
		t.Run(fmt.Sprintf("every %d bytes", step), func(t *testing.T) {
			o, data := openLarge(t)
			off, want := 0, 0
			if step < 0 {
				off = len(data) - 4096
			}
			for ; off >= 0 && off < len(data); off += step {
				o.readAt(off, 4096)
				want += min(4096, len(data)-off)
			}
			asked := 0
			for _, r := range o.server.Requests(wire.TypeRead) {
				asked += int(r.Length)
			}
			if asked != want {
				t.Errorf("asked for %d bytes to read %d", asked, want)
			}
		})
	}
}

// requested returns the chunks that are kept.
func (r *reader) requested() (chunks []*chunk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.chunks {
		chunks = append(chunks, c)
	}
	return chunks
}
