//go:build linux || darwin

package sftpfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

const (
	laneTrip = 50 * time.Millisecond
	// laneFile is the size of a file that is large enough for lanes. From lanesFrom on they are in
	// use.
	laneFile, lanesFrom = 40 << 20, 16 << 20
	// laneBuffer is how much may wait for the host.
	laneBuffer = 6 << 20
)

// largeFile is a file that a program is writing over a long link.
type largeFile struct {
	*opened
	data  []byte
	times wire.Attrs // before
}

// mountLarge mounts a directory with a file over a connection with windows of 2 MiB.
func mountLarge(t *testing.T, streams int, buffer int64) *largeFile {
	t.Helper()
	s := &scripted{server: sftptest.NewServer(t, sftptest.Script{Extensions: append(
		sftptest.OpenSSHExtensions(), wire.ExtensionPair{Name: wire.ExtAbandon, Data: "1"})}),
		version: "SSH-2.0-OpenSSH_10.0", buffer: buffer, streams: streams,
		link: sftptest.LinkConfig{ToServer: laneTrip / 2, ToClient: laneTrip / 2,
			Window: 2 << 20}}
	s.mount(t, 0)
	if shared := s.FS.link.conn.Host().Pool; shared != nil {
		shared.Want(1, 0)
		time.Sleep(time.Second) // all sessions are there before lanes are due
	}
	s.server.Files.WriteFile("/file", nil)
	before, err := s.server.Files.Lstat("/file")
	if err != nil {
		t.Fatal(err)
	}
	return &largeFile{s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY),
		slices.Clone(laneData()), before}
}

var laneData = sync.OnceValue(func() []byte {
	data := make([]byte, laneFile)
	for i := range data {
		data[i] = byte(i>>10) ^ byte(i>>18)
	}
	return data
})

// put writes a range of the data.
func (l *largeFile) put(from, to int) {
	l.t.Helper()
	for size := 256 << 10; from < to && !l.t.Failed(); from += size {
		l.write(from, string(l.data[from:min(from+size, to)]))
	}
}

// lanes writes so much that lanes are in use.
func (l *largeFile) lanes() {
	l.t.Helper()
	l.put(0, lanesFrom+8*extentSize)
	if status := l.sync(); status != fuse.OK {
		l.t.Error(status)
	}
	if n := l.streamsOf(lanesFrom, laneFile); n != l.streams && !l.t.Failed() {
		l.t.Fatalf("written over %d streams", n)
	}
}

// close closes the file, and compares what the host has.
func (l *largeFile) close() {
	l.t.Helper()
	in := &fuse.FlushIn{InHeader: l.header, Fh: l.fh}
	if status := l.Flush(nil, in); status != fuse.OK {
		l.t.Errorf("close: %v", status)
	}
	l.compare("/file", l.data)
	l.Release(nil, &fuse.ReleaseIn{InHeader: l.header, Fh: l.fh})
	time.Sleep(time.Second)
	if n := l.server.OpenHandles(); n != 0 {
		l.t.Errorf("%d handles are still open", n)
	}
}

func (l *largeFile) compare(name string, want []byte) {
	l.t.Helper()
	if got, err := l.server.Files.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		l.t.Errorf("%s: the host has other contents: %d bytes, want %d, %v", name, len(got),
			len(want), err)
	}
}

// streamsOf returns over how many streams a range was written.
func (l *largeFile) streamsOf(from, to int) int {
	streams := make(map[int]bool)
	for _, r := range l.server.Requests(wire.TypeWrite) {
		if int(r.Offset) >= from && int(r.Offset) < to {
			streams[r.Stream] = true
		}
	}
	return len(streams)
}

// A large file is written over several sessions, each of which carries a window in a round trip.
// The time of access that proves that they have the same file does not stay.
func TestLanes(t *testing.T) {
	took := make(map[int]time.Duration)
	for _, streams := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			l := mountLarge(t, streams, laneBuffer)
			l.lanes()
			began := time.Now()
			l.put(lanesFrom+8*extentSize, laneFile)
			if status := l.sync(); status != fuse.OK {
				t.Error(status)
			}
			took[streams] = time.Since(began)
			l.close()
			after, err := l.server.Files.Lstat("/file")
			if err != nil || after.ATime != l.times.ATime {
				t.Errorf("the time of access has changed by %d s: %v",
					after.ATime-l.times.ATime, err)
			}
			if now := uint32(time.Now().Unix()); after.MTime+2 < now {
				t.Errorf("the time of modification is %d s ago", now-after.MTime)
			}
		})
	}
	if took[1] < 2*took[3] {
		t.Errorf("over one session it took %v, over three %v", took[1], took[3])
	}
}

// A file that another program has replaced is not taken for the one that is being written, and
// nothing is written over several sessions where that cannot be told.
func TestLanesUnproved(t *testing.T) {
	for what, fault := range map[string]sftptest.Fault{
		"replaced":          {},
		"not the owner":     {On: wire.TypeFsetstat, Do: sftptest.Refuse(wire.PermissionDenied, "")},
		"no time is kept":   {On: wire.TypeFsetstat, Do: sftptest.Refuse(wire.OK, "")},
		"may not be opened": {On: wire.TypeOpen, Do: sftptest.Refuse(wire.PermissionDenied, "")},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := mountLarge(t, 3, laneBuffer)
				name, want := "/file", 1
				if what == "replaced" {
					name = "/moved"
					if err := l.FS.link.client.PosixRename("/file", name); err != nil {
						t.Fatal(err)
					}
					l.server.Files.WriteFile("/file", []byte("another"))
				} else {
					l.server.AddFaults(fault)
				}
				l.put(0, laneFile)
				if status := l.sync(); status != fuse.OK {
					t.Error(status)
				}
				if n := l.streamsOf(0, laneFile); n != want {
					t.Errorf("written over %d streams", n)
				}
				if n := len(l.server.Requests(wire.TypeInit)); n != 3 {
					t.Errorf("%d sessions were opened", n)
				}
				l.compare(name, l.data)
				if what == "replaced" {
					l.compare("/file", []byte("another"))
				}
				after, err := l.server.Files.Lstat(name)
				if err != nil || after.ATime != l.times.ATime {
					t.Errorf("the time of access has changed by %d s: %v",
						after.ATime-l.times.ATime, err)
				}
			})
		})
	}
}

// Nobody here sees the time of access that is set for the proof, or sets it for good.
func TestLanesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mountLarge(t, 3, laneBuffer)
		var seen atomic.Int32
		l.server.AddFaults(sftptest.Fault{On: wire.TypeFstat, Do: sftptest.Call("look",
			func(r sftptest.Request) {
				if r.Stream == 1 {
					return
				}
				seen.Add(1)
				if is, err := l.server.Files.Lstat("/file"); err != nil ||
					is.ATime == l.times.ATime {
					t.Errorf("the host has the time %d, %v", is.ATime, err)
				}
				attr, status := l.getAttr()
				if status != fuse.OK || attr.Atime != uint64(l.times.ATime) {
					t.Errorf("time %d, %v, want %d", attr.Atime, status, l.times.ATime)
				}
			})})
		l.put(0, laneFile)
		l.close()
		if n := seen.Load(); n != 2 {
			t.Errorf("%d lanes", n)
		}
	})
}

// stuck makes the host's next WRITE of a lane wait until go is called.
func (l *largeFile) stuck() (wait, free func()) {
	held, opened := make(chan bool), make(chan bool)
	once := false
	l.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Do: sftptest.Call("stuck",
		func(r sftptest.Request) {
			if r.Stream == 2 && !once {
				once = true
				close(held)
				<-opened
			}
		})})
	return func() { <-held }, func() { close(opened) }
}

// What is written later arrives later, whatever the session: also if what was written before has
// been given up, and if another program or another call changes the file.
func TestLanesOrder(t *testing.T) {
	const at = lanesFrom + 8*extentSize
	for what, change := range map[string]func(l *largeFile, other *opened){
		"the same range": func(l *largeFile, _ *opened) {
			clear(l.data[at:])
			l.put(at, at+4*extentSize)
		},
		"by another program": func(l *largeFile, other *opened) {
			clear(l.data[at:])
			other.write(at, string(l.data[at:at+4*extentSize]))
		},
		"a shorter size": func(l *largeFile, _ *opened) {
			in := fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 10}
			if status := l.setAttr(in); status != fuse.OK {
				l.t.Error(status)
			}
			l.data = l.data[:10]
		},
		"emptied by another program": func(l *largeFile, _ *opened) {
			l.openFlags(l.t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_TRUNC)
			l.data = nil
		},
	} {
		for _, givenUp := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := mountLarge(t, 3, laneBuffer)
					l.lanes()
					other := l.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY)
					wait, free := l.stuck()
					l.put(at, at+4*extentSize)
					wait()
					if givenUp {
						l.FS.files.get(l.fh).file.abandon(os.ErrDeadlineExceeded)
						l.FS.files.get(l.fh).failure.forFsync()
						other.FS.files.get(other.fh).failure.forFsync()
					}
					done := make(chan bool)
					go func() {
						change(l, other)
						for _, o := range []*opened{l.opened, other} {
							if status := o.sync(); status != fuse.OK {
								t.Error(status)
							}
						}
						close(done)
					}()
					time.Sleep(time.Second)
					free()
					<-done
					l.compare("/file", l.data[:min(len(l.data), at+4*extentSize)])
				})
			})
		}
	}
}

// That holds for what was written, and has not been sent, before lanes are used.
func TestLanesRewrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const block = extentSize
		l := mountLarge(t, 3, 4*laneBuffer)
		old := string(make([]byte, block))
		for at := 0; at+block <= lanesFrom; at += block {
			l.write(at, old)
			if back := at - 4*block; back >= 0 {
				l.put(back, back+block)
			}
		}
		l.lanes()
		l.data = l.data[:lanesFrom+8*block]
		l.close()
	})
}

// Nothing is lost when the connection, or one of its sessions, is cut while a file is written over
// several sessions.
func TestLanesCut(t *testing.T) {
	for name, session := range map[string]int{"all": -1, "the first": 0, "another": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := mountLarge(t, 3, laneBuffer)
				l.lanes()
				l.put(lanesFrom+8*extentSize, lanesFrom+32*extentSize)
				if session < 0 {
					l.cut()
				} else {
					l.ends[session].Cut(nil)
				}
				l.put(lanesFrom+32*extentSize, laneFile)
				l.close()
			})
		})
	}
}

// Of a file that is not whole no session sends CLOSE, which would make it appear where files do so
// when they are closed.
func TestLanesAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mountLarge(t, 3, laneBuffer)
		l.lanes()
		l.server.AddFaults(sftptest.Fault{On: wire.TypeWrite,
			Do: sftptest.Refuse(wire.Failure, "no")})
		l.write(lanesFrom+8*extentSize, "lost")
		if status := l.Flush(nil, &fuse.FlushIn{InHeader: l.header, Fh: l.fh}); status == fuse.OK {
			t.Error("nobody hears of it")
		}
		l.Release(nil, &fuse.ReleaseIn{InHeader: l.header, Fh: l.fh})
		synctest.Wait()
		time.Sleep(time.Second)
		abandoned := 0
		for _, r := range l.server.Requests(wire.TypeExtended) {
			if r.Extension == wire.ExtAbandon && r.Path == "/file" {
				abandoned++
			}
		}
		closed := slices.ContainsFunc(l.server.Requests(wire.TypeClose),
			func(r sftptest.Request) bool { return r.Path == "/file" })
		if abandoned != 3 || closed || l.server.OpenHandles() != 0 {
			t.Errorf("%d of 3 are abandoned, closed %v, %d open", abandoned, closed,
				l.server.OpenHandles())
		}
	})
}

// A host that is slow on the further sessions is waited for.
func TestLanesSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mountLarge(t, 3, laneBuffer)
		l.lanes()
		l.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Do: sftptest.Call("wait",
			func(r sftptest.Request) {
				if r.Stream > 1 {
					time.Sleep(scriptedTimeout / 4)
				}
			})})
		end := lanesFrom + 24*extentSize
		l.put(lanesFrom+8*extentSize, end)
		began := time.Now()
		if status := l.sync(); status != fuse.OK {
			t.Errorf("fsync: %v", status)
		}
		if time.Since(began) < scriptedTimeout {
			t.Error("it was fast")
		}
		l.compare("/file", l.data[:end])
	})
}

// What did not arrive over any of the sessions, while the host cannot be reached, is kept.
func TestLanesRescue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mountLarge(t, 3, laneBuffer)
		l.lanes()
		l.put(lanesFrom+8*extentSize, lanesFrom+24*extentSize)
		l.silence()
		if status := l.sync(); status == fuse.OK {
			t.Error("fsync: no error")
		}
		l.restore()
		got, err := l.server.Files.ReadFile("/file")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, make([]byte, laneFile-len(got))...)
		lists, err := filepath.Glob(filepath.Join(l.rescues, "*.ranges"))
		if err != nil || len(lists) != 1 {
			t.Fatalf("%q, %v", lists, err)
		}
		list, err := os.ReadFile(lists[0])
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(strings.TrimSuffix(lists[0], ".ranges"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n")[1:] {
			var off, n int
			if _, err := fmt.Sscan(line, &off, &n); err != nil {
				t.Fatal(err)
			}
			copy(got[off:off+n], kept[off:off+n])
		}
		if end := lanesFrom + 24*extentSize; !bytes.Equal(got[:end], l.data[:end]) {
			t.Error("the host and the rescue file do not have it all")
		}
	})
}
